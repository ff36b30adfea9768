"""Documents out: Markdown, text, JSON, and files that appear whole or not at all."""
