"""Makes the sample documents of this folder: `python examples/make.py` (needs what ocria itself needs).

`scan.png` is a printed page as a cheap scanner returns it: bilevel, 300 dpi, slightly turned, speckled,
with the shadow of the binding. `scan.txt` is its text, line by line. `report.pdf` is born digital: headings,
a list, a ruled table, two columns. The texts are ours, the fonts are those inside PyMuPDF, the noise is
seeded: the same versions of PyMuPDF and Pillow make the same files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image, ImageFilter

HERE = Path(__file__).parent
ROMAN, BOLD, ITALIC = pymupdf.Font("tiro"), pymupdf.Font("tibo"), pymupdf.Font("tiit")

CHAPTER = "The Keeper’s Ledger"
STORY = [
    "The lamp at Carrick Point was first lit on the 14th of October, 1871, and from that night until the "
    "winter of 1903 one man kept its ledger. He wrote in it twice a day, at dusk and at dawn, and never more "
    "than the page would hold. “Wind north-west, fresh; sea rising,” says the first entry. “Eleven sail "
    "passed before dark. Lamp burned well.”",
    "It is a plain book—ruled in faint blue, bound in calf, and stained along one edge where the sea came "
    "in—yet it holds the whole life of the rock. Oil was drawn at 3 pints a night in summer and nearly 9 in "
    "December. Wicks cost 4s. 6d. the dozen, glass chimneys rather more; a lens that cracked in the frost of "
    "1881 was replaced at a charge of £27, “not without complaint from the Board.”",
    "Of himself he said little. Once, in the spring of his twentieth year there, he copied out a list of "
    "every vessel that had answered his signal: 212 brigs, 97 barques, 41 steamers, and “a whale, which did "
    "not.” Why should a man count such things? Perhaps because nobody else would; perhaps because counting "
    "kept the long hours in order.",
    "When the relief boat came for him at last he asked only that the ledger stay on its shelf. It is there "
    "still. The final line, written in a smaller hand than the others, reads: “Fair. Wind S.W., light. Lamp "
    "burning. Nothing to report.”",
]

FINDINGS = [
    "Rain gauges at all four stations were read daily; 3 of 1,460 readings are missing.",
    "The wettest month was November (214 mm at Fell Head).",
    "No station recorded frost between 2 May and 30 September.",
]
TABLE = [
    ("Station", "Height (m)", "Rain (mm)", "Days with rain"),
    ("Fell Head", "612", "1,874", "231"),
    ("Long Moss", "405", "1,390", "208"),
    ("Mill Bridge", "148", "962", "174"),
    ("Harbour", "6", "811", "159"),
]
SUMMARY = (
    "This report gathers one year of rainfall from four stations between the harbour and the ridge. It "
    "describes how the readings were taken, what they show, and how far they can be trusted."
)
METHOD = [
    "Each gauge is a copper funnel of 127 mm over a glass bottle, set in short grass and read at nine in the "
    "morning. The observer pours the water into a measuring glass and writes down the depth to a tenth of a "
    "millimetre. Snow is melted first.",
    "Two gauges stood side by side at Mill Bridge for the whole year. Their totals differ by less than one "
    "per cent, which we take as the error of a single reading.",
]
DISCUSSION = [
    "Rain grows with height, as expected, but not evenly: the step between Mill Bridge and Long Moss is "
    "larger than the step from there to the ridge. The valley turns east at that point and the wind drops "
    "its water on the western slope.",
    "A longer record would show whether the dry August was an exception. The gauges remain in place and the "
    "readings continue.",
]


def wrap(text: str, font: pymupdf.Font, size: float, width: float, indent: float = 0.0) -> list[str]:
    """Break a paragraph into lines at spaces, the first one shorter by `indent` points."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        room = width - (0 if lines else indent)
        joined = f"{current} {word}".strip()
        if current and font.text_length(joined, size) > room:
            lines.append(current)
            current = word
        else:
            current = joined
    return [*lines, current]


def justify(writer, x: float, y: float, text: str, size: float, width: float) -> None:
    """Set one line word by word so that it fills `width` points."""
    words = text.split()
    spare = width - sum(ROMAN.text_length(word, size) for word in words)
    for word in words:
        writer.append((x, y), word, font=ROMAN, fontsize=size)
        x += ROMAN.text_length(word, size) + spare / max(1, len(words) - 1)


def paragraph(
    writer, x: float, y: float, text: str, *, width: float, size: float = 10.5, indent: float = 0, block=True
) -> tuple[float, list[str]]:
    """Set a paragraph with its first baseline at `y`; returns the next baseline and the lines."""
    lines = wrap(text, ROMAN, size, width, indent)
    for number, line in enumerate(lines):
        left = x + (indent if number == 0 else 0)
        if block and number < len(lines) - 1:
            justify(writer, left, y, line, size, x + width - left)
        else:
            writer.append((left, y), line, font=ROMAN, fontsize=size)
        y += size * 1.28
    return y, lines


def book_page() -> tuple[Image.Image, list[str]]:
    """A clean page of a 5.5 × 6.5 inch book at 300 dpi, grey, and its lines of text."""
    width, height, margin, size = 396, 468, 46, 11.0
    document = pymupdf.open()
    page = document.new_page(width=width, height=height)
    writer = pymupdf.TextWriter(page.rect)
    left = (width - BOLD.text_length(CHAPTER, 15)) / 2
    writer.append((left, 58), CHAPTER, font=BOLD, fontsize=15)
    y, lines = 88.0, [CHAPTER]
    for text in STORY:
        y, set_lines = paragraph(writer, margin, y, text, size=size, width=width - 2 * margin, indent=14)
        lines += set_lines
    writer.append((width / 2 - 5, height - 30), "17", font=ROMAN, fontsize=9)
    writer.write_text(page)
    pixels = page.get_pixmap(dpi=300, colorspace=pymupdf.csGRAY)
    image = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
    return image, [*lines, "17"]


def scanned(clean: Image.Image, *, turn: float = 0.7, seed: int = 7) -> Image.Image:
    """The page as a bilevel scan: turned by `turn` degrees, ink spread, noise, specks, shadow on the left."""
    random = np.random.default_rng(seed)
    turned = clean.rotate(turn, resample=Image.Resampling.BICUBIC, fillcolor=255)
    grey = np.asarray(turned.filter(ImageFilter.GaussianBlur(0.8)), dtype=np.float32)
    height, width = grey.shape
    coarse = random.normal(0, 1, (height // 6 + 1, width // 6 + 1)).astype(np.float32)
    paper = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    grey = grey + 9 * paper + random.normal(0, 7, grey.shape)
    black = grey < 175
    for _ in range(160):
        y, x, radius = random.integers(0, height), random.integers(0, width), random.integers(1, 3)
        black[y : y + radius, x : x + radius] = True
    # The binding: ragged black down the left edge.
    edge = 14 + np.cumsum(random.normal(0, 0.6, height)).clip(-9, 14)
    black |= np.arange(width)[None, :] < edge[:, None]
    return Image.fromarray(~black)


def report() -> pymupdf.Document:
    """A two-page report: title, summary, list and table, then two columns."""
    document = pymupdf.open()
    document.set_metadata({"title": "Rainfall on the Western Slope"})
    page = document.new_page(width=595, height=842)
    writer = pymupdf.TextWriter(page.rect)
    writer.append((72, 96), "Rainfall on the Western Slope", font=BOLD, fontsize=22)
    writer.append((72, 118), "Annual report of the valley stations", font=ITALIC, fontsize=11)
    y, _ = paragraph(writer, 72, 152, SUMMARY, width=451, block=False)
    writer.append((72, y + 20), "Findings", font=BOLD, fontsize=15)
    y += 42
    for finding in FINDINGS:
        writer.append((80, y), "•", font=ROMAN, fontsize=10.5)
        y, _ = paragraph(writer, 94, y, finding, width=429, block=False)
    writer.append((72, y + 20), "Totals by station", font=BOLD, fontsize=15)
    table_page(page, writer, 72, y + 36)
    writer.write_text(page)

    page = document.new_page(width=595, height=842)
    writer = pymupdf.TextWriter(page.rect)
    for x, heading, texts in ((72, "Method", METHOD), (310, "Discussion", DISCUSSION)):
        writer.append((x, 96), heading, font=BOLD, fontsize=15)
        y = 118.0
        for text in texts:
            y, _ = paragraph(writer, x, y, text, width=213)
            y += 6
    writer.write_text(page)
    document.subset_fonts()
    return document


def table_page(page, writer, x: float, y: float) -> None:
    """Set TABLE as a ruled grid with its top left corner at `x`, `y`."""
    widths, row_height = (130, 100, 100, 121), 20
    edges = [x + sum(widths[:number]) for number in range(len(widths) + 1)]
    for row_number, row in enumerate(TABLE):
        for column, cell in enumerate(row):
            place = (edges[column] + 5, y + row_height * row_number + 14)
            writer.append(place, cell, font=ROMAN if row_number else BOLD, fontsize=10.5)
    bottom = y + row_height * len(TABLE)
    for edge in edges:
        page.draw_line((edge, y), (edge, bottom), width=0.7)
    for number in range(len(TABLE) + 1):
        page.draw_line((x, y + row_height * number), (edges[-1], y + row_height * number), width=0.7)


def main() -> None:
    clean, lines = book_page()
    scanned(clean).save(HERE / "scan.png", dpi=(300, 300), optimize=True)
    (HERE / "scan.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report().save(HERE / "report.pdf", garbage=4, deflate=True, deflate_fonts=True, no_new_id=True)


if __name__ == "__main__":
    main()
