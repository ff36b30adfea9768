"""Structure: what the parts of a page and of a document are."""
