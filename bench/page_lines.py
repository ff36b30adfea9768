"""The lines of documents: of scans, and of born-digital pages with what their text layer says of each."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from samples import find_samples, load_items

SCANS, BORN = "scans", "born digital"
PDF_DPI = 200


@dataclass(frozen=True, slots=True)
class Line:
    """kind: `SCANS` or `BORN`; image uint8 `[40, W]`; guess: what a text layer says of it."""

    kind: str
    image: np.ndarray
    guess: str | None


def pdf_lines(path: Path, pages: range | None = None) -> list[Line]:
    """The lines of the pages of a PDF, rendered at `PDF_DPI`, with guesses from its text layer."""
    from ocria.document.guess import line_guesses
    from ocria.document.lines import find_lines
    from ocria.document.read_pages import to_gray
    from ocria.document.source import open_source
    from ocria.model.line import line_image

    found = []
    with closing(open_source(path)) as source:
        for number in pages or range(1, source.page_count + 1):
            page = source.page(number)
            pixels = to_gray(page.render(PDF_DPI))
            lines = find_lines(pixels).lines
            boxes = [tuple(float(v) * 72 / PDF_DPI for v in line.box) for line in lines]
            for line, guess in zip(lines, line_guesses(page.words(), boxes), strict=True):
                found.append(Line(BORN, line_image(line.crop), guess))
    return found


def image_lines(path: Path) -> list[Line]:
    """The lines of a scan."""
    from readers import grey_image

    from ocria.document.lines import find_lines
    from ocria.model.line import line_image

    return [Line(SCANS, line_image(line.crop), None) for line in find_lines(grey_image(path)).lines]


def file_lines(path: Path) -> list[Line]:
    return pdf_lines(path) if path.suffix.lower() == ".pdf" else image_lines(path)


def sample_lines(folder: str) -> list[Line]:
    """The lines of the real samples: scanned pages, and the first pages of born-digital PDFs."""
    found = []
    for item in load_items(find_samples(folder), ["books", "borders", "test", "magazine", "born"]):
        found += image_lines(item.path) if item.page is None else pdf_lines(item.path, range(item.page, item.page + 1))
    return found


def even(lines: list[Line], limit: int) -> list[Line]:
    """At most `limit` lines of each kind, from everywhere."""
    kept = []
    for kind in (SCANS, BORN):
        of_kind = [line for line in lines if line.kind == kind]
        step = max(1.0, len(of_kind) / limit)
        kept += [of_kind[int(i * step)] for i in range(min(limit, len(of_kind)))]
    return kept
