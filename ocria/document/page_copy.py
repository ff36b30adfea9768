"""One page of a PDF as a PDF of its own."""

from __future__ import annotations

import pymupdf


def copy_page(pdf: pymupdf.Document, index: int) -> pymupdf.Document:
    """A PDF that holds page `index` (0-based) alone, with its layers as they show in `pdf`, which is left as it is."""
    copy = pymupdf.open()
    # Copying form fields walks over all pages of the source: only where there are some.
    copy.insert_pdf(pdf, from_page=index, to_page=index, links=False, widgets=bool(pdf.is_form_pdf))
    _keep_layers(pdf, copy)
    return copy


def _keep_layers(pdf: pymupdf.Document, copy: pymupdf.Document) -> None:
    """Tell the copy which of its layers are off: a copied page brings its layers, but not their states."""
    off = {layer["name"] for layer in pdf.get_ocgs().values() if not layer["on"]}
    if not off:
        return
    layers = [xref for xref in range(1, copy.xref_length()) if copy.xref_get_key(xref, "Type") == ("name", "/OCG")]
    hidden = [xref for xref in layers if copy.xref_get_key(xref, "Name")[1] in off]
    every, some = (" ".join(f"{xref} 0 R" for xref in part) for part in (layers, hidden))
    copy.xref_set_key(copy.pdf_catalog(), "OCProperties", f"<</OCGs[{every}]/D<</OFF[{some}]>>>>")
