"""Images as pages of a PDF, each with its pixels as they are."""

from __future__ import annotations

import io

import numpy as np
import pymupdf
from PIL import Image

from ocria.document.decode import DAMAGE, open_image
from ocria.document.image import ImageSource
from ocria.document.result import Document
from ocria.document.source import Readable, Source
from ocria.errors import InputError

_A4 = (595.0, 842.0)
_ORIENTATION = 0x0112
"""EXIF's entry that tells how an image is turned and mirrored."""


def images_as_pdf(source: Source, file: Readable, document: Document) -> pymupdf.Document:
    """A page for each image, as large as the document says; an image that cannot be read leaves an empty page. A JPEG
    file of grey or RGB stays as it is, other kinds are compressed without loss."""
    pdf = pymupdf.open()
    known = {page.index: (page.width, page.height) for page in document.pages if page.width and page.height}
    whole = _whole_jpeg(source, file)
    for number in range(1, source.page_count + 1):
        try:
            image = source.page(number)
            width, height = known.get(number) or _size(image)
            if whole is not None:
                _add_jpeg(pdf, file.content, whole, width, height)
            else:
                _add_pixels(pdf, image.render(None), width, height)
        except InputError:
            # The page is failed in the document too, and keeps its number here.
            pdf.new_page(width=_A4[0], height=_A4[1])
    return pdf


def _size(image) -> tuple[float, float]:
    facts = image.look()
    return facts.width, facts.height


def _whole_jpeg(source: Source, file: Readable) -> int | None:
    """The orientation of a JPEG file that can be taken as it is; None for all other files."""
    if not isinstance(source, ImageSource) or source.repaired or not file.content.startswith(b"\xff\xd8\xff"):
        return None
    with open_image(file.content, source.path) as image:
        if image.format not in ("JPEG", "MPO") or image.mode not in ("L", "RGB"):
            return None
        try:
            return image.getexif().get(_ORIENTATION, 1)
        except DAMAGE:
            return 1


def _add_jpeg(pdf: pymupdf.Document, content: bytes, orientation: int, width: float, height: float) -> None:
    page = pdf.new_page(width=width, height=height)
    page.insert_image(page.rect, stream=content, keep_proportion=False)
    (name,) = (image[7] for image in page.get_images())
    matrix = " ".join(f"{value:g}" for value in _placement(orientation, width, height))
    (stream,) = page.get_contents()
    pdf.update_stream(stream, f"q {matrix} cm /{name} Do Q".encode())


def _placement(orientation: int, w: float, h: float) -> tuple[float, ...]:
    """The matrix that puts an image on a page of `w` x `h` points, turned and mirrored as EXIF says."""
    return {
        2: (-w, 0, 0, h, w, 0),
        3: (-w, 0, 0, -h, w, h),
        4: (w, 0, 0, -h, 0, h),
        5: (0, -h, -w, 0, w, h),
        6: (0, -h, w, 0, 0, h),
        7: (0, h, w, 0, 0, 0),
        8: (0, h, -w, 0, w, 0),
    }.get(orientation, (w, 0, 0, h, 0, 0))


def _add_pixels(pdf: pymupdf.Document, pixels: np.ndarray, width: float, height: float) -> None:
    """uint8 [H, W, 3], as grey or as black and white where that holds all of it."""
    image = Image.fromarray(pixels)
    if (pixels == pixels[..., :1]).all():
        image = Image.fromarray(np.ascontiguousarray(pixels[..., 0]))
        if np.isin(pixels[..., 0], (0, 255)).all():
            image = image.convert("1", dither=Image.Dither.NONE)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    page = pdf.new_page(width=width, height=height)
    page.insert_image(page.rect, stream=stream.getvalue(), keep_proportion=False)
