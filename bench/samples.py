"""The real documents that benches score against: where they lie, their groups and their truths.

The samples are other people's data and are not part of this repository. They are a folder with a
`manifest.jsonl`, one line per file: `path`, `group`, `kind`, and `truth` where there is one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

RASTER_DPI = 200
MIN_WORDS = 100  # of a born-digital page: with a handful of words F1 is a lottery
# Its text layer is the page with every letter shifted by one: no truth at all.
_FALSE_TEXT_LAYER = "olmocr/gnarly/dolma-page-1.pdf"


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of document and how it is scored."""

    title: str
    measure: str  # "cer": order matters; "f1": bag of words, where the truth has no reading order
    unit: str  # "line" or "page"
    lower: bool = False


GROUPS = {
    "lines": Group("journal lines", "cer", "line"),
    "books": Group("old-book pages", "cer", "page"),
    "borders": Group("old-book pages with black borders", "cer", "page"),
    "test": Group("test page", "cer", "page"),
    "turned": Group("test page turned left", "cer", "page"),
    "magazine": Group("magazine page, several columns", "f1", "page"),
    "receipts": Group("receipts, lower-cased", "f1", "page", lower=True),
    "born": Group(f"born-digital PDF pages as {RASTER_DPI} dpi images", "f1", "page"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """One image to read: an image file, or one page of a PDF to be rasterised first."""

    group: str
    name: str
    path: Path
    truth: str
    page: int | None = None  # 1-based page of a PDF; None for an image file


class SamplesNotFound(Exception):
    """No folder with a manifest where the samples were looked for."""


def find_samples(folder: str | None = None) -> Path:
    """The folder of the real samples: `folder`, else `OCRIA_SAMPLES`, else `../shared/samples`.

    The last is relative to the root of the repository. A folder is that of the manifest, or its parent,
    where the real samples lie in `real/`.
    Raises SamplesNotFound naming the places looked at.
    """
    root = Path(__file__).resolve().parents[1]
    chosen = folder or os.environ.get("OCRIA_SAMPLES") or root.parent / "shared" / "samples"
    places = [Path(chosen), Path(chosen) / "real"]
    for place in places:
        if (place / "manifest.jsonl").is_file():
            return place
    looked = " or ".join(map(str, places))
    raise SamplesNotFound(f"no manifest.jsonl in {looked}; name the folder with --samples or OCRIA_SAMPLES")


def load_items(
    folder: Path, groups: list[str], *, limit: int | None = None, pdf_pages: int = 2
) -> list[Item]:
    """The items of the groups asked for, in manifest order, at most `limit` of each group.

    Of each born-digital PDF the first `pdf_pages` pages are taken where they have MIN_WORDS words; their
    truth is the text layer.
    """
    items: list[Item] = []
    for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        group = _group_of(row)
        if group not in groups:
            continue
        path = folder / row["path"]
        if group == "born":
            items += _pdf_items(path, row["path"], pdf_pages)
        else:
            items.append(Item(group, row["path"], path, (folder / row["truth"]).read_text(encoding="utf-8")))
    kept: list[Item] = []
    for group in groups:
        kept += [item for item in items if item.group == group][:limit]
    return kept


def _group_of(row: dict) -> str | None:
    """Our group of a manifest row; None for files that are not scored."""
    path = row["path"]
    match row["group"]:
        case "lines_truth":
            return "lines"
        case "receipt_truth":
            return "receipts"
        case "scan_truth_hard":
            return "borders"
        case "scan_truth_rotated":
            return "turned"
        case "scan_truth" if path.startswith("old-books"):
            return "books"
        case "scan_truth" if "8071" in path:
            return "magazine"
        case "scan_truth":
            return "test"
        case "born" if path != _FALSE_TEXT_LAYER:
            return "born"
    return None


def _pdf_items(path: Path, name: str, pages: int) -> list[Item]:
    import pymupdf

    with pymupdf.open(path) as document:
        texts = [document[i].get_text() for i in range(min(pages, document.page_count))]
    return [
        Item("born", f"{name}#{number}", path, text, page=number)
        for number, text in enumerate(texts, start=1)
        if len(text.split()) >= MIN_WORDS
    ]


def image_file(item: Item, cache: Path) -> Path:
    """The image file of an item; a PDF page is rendered once to a grey PNG in `cache`."""
    if item.page is None:
        return item.path
    import pymupdf

    stem = item.name.replace("/", "_").replace("#", "_p").removesuffix(".pdf")
    target = cache / f"{stem}_{RASTER_DPI}dpi_mupdf{pymupdf.mupdf_version}.png"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with pymupdf.open(item.path) as document:
            pixels = document[item.page - 1].get_pixmap(dpi=RASTER_DPI, colorspace=pymupdf.csGRAY)
        partial = target.with_suffix(".partial.png")
        pixels.save(partial)
        partial.replace(target)
    return target
