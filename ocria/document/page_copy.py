"""One page of a PDF as a PDF of its own."""

from __future__ import annotations

import pymupdf
from pymupdf import mupdf


def copy_page(pdf: pymupdf.Document, index: int) -> pymupdf.Document:
    """A PDF that holds page `index` (0-based) alone, laid flat, with its layers as they show in `pdf`, which looks as
    before."""
    copy = pymupdf.open()
    _name_annotations(pdf, index)
    # Copying form fields walks over all pages of the source: only where there are some.
    copy.insert_pdf(pdf, from_page=index, to_page=index, links=False, widgets=bool(pdf.is_form_pdf))
    _keep_layers(pdf, copy)
    lay_flat(copy[0])
    return copy


def lay_flat(page: pymupdf.Page) -> pymupdf.Page:
    """The page as one that looks the same without rotation, crop box and unit of its own, so that everything stands
    where it is displayed. Its PDF must be the caller's own; `page` must not be used again.

    PyMuPDF's matrices and its `remove_rotation` do not heed crop boxes and units on rotated pages.
    """
    pdf, xref = page.parent, page.xref
    width, height = page.rect.width, page.rect.height
    unit = pdf.xref_get_key(xref, "UserUnit")[1]
    crop = pdf.xref_get_key(xref, "CropBox")[1]
    if page.rotation == 0 and unit == crop == "null" and tuple(page.mediabox) == (0.0, 0.0, width, height):
        return page
    to_page = content_to_page(page) * pymupdf.Matrix(1, 0, 0, -1, 0, height)
    if page.first_annot is not None or page.first_widget is not None:
        # What lies over the content must move with it.
        pdf.bake()
        page = pdf.load_page(page.number)
    matrix = " ".join(f"{value:.6f}" for value in to_page)
    pymupdf.TOOLS._insert_contents(page, f"{matrix} cm\n".encode(), False)
    pdf.xref_set_key(xref, "MediaBox", f"[0 0 {width:.6f} {height:.6f}]")
    for key in ("CropBox", "UserUnit", "Rotate"):
        pdf.xref_set_key(xref, key, "null")
    return pdf.load_page(page.number)


def to_displayed(page: pymupdf.Page) -> pymupdf.Matrix:
    """From the coordinates in which PyMuPDF tells what is on a page to the displayed page: `Page.rotation_matrix` where
    that is right, which it is not with units and with crop boxes that reach beyond the page."""
    width, height = page.rect.width, page.rect.height
    return {
        0: pymupdf.Matrix(1, 0, 0, 1, 0, 0),
        90: pymupdf.Matrix(0, 1, -1, 0, width, 0),
        180: pymupdf.Matrix(-1, 0, 0, -1, width, height),
        270: pymupdf.Matrix(0, -1, 1, 0, 0, height),
    }[page.rotation]


def content_to_page(page: pymupdf.Page) -> pymupdf.Matrix:
    """From the coordinates of a page's content to the displayed page."""
    box, matrix = mupdf.FzRect(), mupdf.FzMatrix()
    mupdf.pdf_page_transform(mupdf.pdf_page_from_fz_page(page.this), box, matrix)
    return pymupdf.Matrix(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


def _name_annotations(pdf: pymupdf.Document, index: int) -> None:
    """Make the annotations of a page that stand in the page itself objects of their own, for only those are copied."""
    document = mupdf.pdf_document_from_fz_document(pdf.this)
    annotations = mupdf.pdf_dict_gets(mupdf.pdf_lookup_page_obj(document, index), "Annots")
    for at in range(mupdf.pdf_array_len(annotations)):
        annotation = mupdf.pdf_array_get(annotations, at)
        if mupdf.pdf_is_indirect(annotation) or not mupdf.pdf_is_dict(annotation):
            continue
        look = mupdf.pdf_dict_gets(mupdf.pdf_dict_gets(annotation, "AP"), "N")
        if mupdf.pdf_to_num(look) >= pdf.xref_length():
            # MuPDF made it as it drew the page, and has dropped it since; it makes it again.
            mupdf.pdf_dict_dels(annotation, "AP")
        mupdf.pdf_array_put(annotations, at, mupdf.pdf_add_object(document, annotation))


def _keep_layers(pdf: pymupdf.Document, copy: pymupdf.Document) -> None:
    """Tell the copy which of its layers are off: a copied page brings its layers, but not their states."""
    off = {layer["name"] for layer in pdf.get_ocgs().values() if not layer["on"]}
    if not off:
        return
    layers = [xref for xref in range(1, copy.xref_length()) if copy.xref_get_key(xref, "Type") == ("name", "/OCG")]
    hidden = [xref for xref in layers if copy.xref_get_key(xref, "Name")[1] in off]
    every, some = (" ".join(f"{xref} 0 R" for xref in part) for part in (layers, hidden))
    copy.xref_set_key(copy.pdf_catalog(), "OCProperties", f"<</OCGs[{every}]/D<</OFF[{some}]>>>>")
