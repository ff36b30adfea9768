"""Scans drawn here: pages rasterised, worn like paper under a scanner, and tests whose truth is known."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymupdf
from PIL import Image, ImageFilter

from .own_pages import A4, Made, columns, table, write


@dataclass(frozen=True, slots=True)
class Wear:
    """What a scan suffered. Grey values in 0..255, angles in degrees anticlockwise, radii in pixels."""

    dpi: int = 200
    skew: float = 0.0
    blur: float = 0.6
    noise: float = 6.0
    """Standard deviation of the grey values."""
    ink: int = 30
    paper: int = 240
    quality: int | None = 70
    """Of JPEG; None for none."""


def scan(page: pymupdf.Page, wear: Wear, noise_seed: int) -> Image.Image:
    """Rasterise a page and wear it down."""
    pixels = page.get_pixmap(dpi=wear.dpi, colorspace=pymupdf.csGRAY)
    image = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
    image = image.rotate(wear.skew, Image.Resampling.BICUBIC, fillcolor=255).filter(ImageFilter.GaussianBlur(wear.blur))
    grey = wear.ink + np.asarray(image, dtype=np.float32) * ((wear.paper - wear.ink) / 255)
    grey += np.random.default_rng(noise_seed).normal(0, wear.noise, grey.shape)
    image = Image.fromarray(grey.clip(0, 255).astype(np.uint8))
    if wear.quality is None:
        return image
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=wear.quality)
    return Image.open(buffer).convert("L")


def save_scan(made: Made, page: pymupdf.Page, file: str, wear: Wear, turn: int = 0) -> None:
    """`turn`: degrees anticlockwise in quarters, done last."""
    image = scan(page, wear, made.random.getrandbits(32)).rotate(turn, expand=True)
    image.save(made.folder / file, dpi=(wear.dpi, wear.dpi), compress_level=1)


WEARS = {
    "clean": Wear(noise=2, quality=None),
    "skewed": Wear(skew=1.3),
    "low": Wear(dpi=150, blur=0.5),
    "faint": Wear(ink=150, noise=10),
    "blurred": Wear(blur=1.5, quality=50),
    "noisy": Wear(noise=22, quality=40, paper=225),
}


def text_scan(made: Made, name: str, wear: Wear, *, turn: int = 0, group: str = "scans") -> None:
    """Three paragraphs of serif or sans-serif type."""
    words, file = made.words(), f"scan_{name}.png"
    sentences = words.sentences(12)
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        text = "\n\n".join(" ".join(sentences[at : at + 4]) for at in (0, 4, 8))
        write(page, (60, 80, 540, 700), text, 12, fontname=made.random.choice(["tiro", "helv"]))
        save_scan(made, page, file, wear, turn)
    for at in (0, 6, 11):
        made.present(file, group, sentences[at], edits=2)
    made.order(file, group, sentences[1], sentences[10], edits=2)
    made.baseline(file)


def receipt(made: Made, number: int, wear: Wear) -> None:
    """A slip of typewriter letters: name, articles with amounts at the right, a total."""
    words, file, group = made.words(), f"receipt_{number}.png", "receipts"
    shop, articles = words.thing().upper(), [(words.thing(), words.amount()) for _ in range(7)]
    total = f"{sum(float(amount) for _, amount in articles):.2f}"
    address = f"{made.random.randint(1, 90)} {words.thing().title()} Street"
    lines = [shop.center(32), address.center(32), "-" * 32]
    lines += [f"{name[:22]:<23}{amount:>9}" for name, amount in articles]
    lines += ["-" * 32, f"{'TOTAL':<23}{total:>9}", "", "THANK YOU".center(32)]
    with pymupdf.open() as document:
        page = document.new_page(width=226, height=40 + 12 * len(lines))
        for at, line in enumerate(lines):
            page.insert_text((16, 24 + 12 * at), line, fontsize=10, fontname="cour")
        save_scan(made, page, file, wear)
    made.present(file, group, shop, edits=1)
    for name, amount in (articles[1], articles[5]):
        made.present(file, group, name[:22].strip())
        # The amount of an article right behind it: the line was read as one.
        made.add(file, group, "order", before=name[:22].strip(), after=amount, max_diffs=0)
    made.add(file, group, "present", text=total)
    made.order(file, group, articles[0][0][:22].strip(), "THANK YOU")
    made.baseline(file)


def blank_scans(made: Made) -> None:
    """Paper with noise, and paper with the dark edges of a copier."""
    for file, border in (("blank_noise.png", 0), ("blank_edges.png", 25)):
        with pymupdf.open() as document:
            page = document.new_page(width=A4[0], height=A4[1])
            if border:
                page.draw_rect(pymupdf.Rect(0, 0, border, A4[1]), fill=(0.1, 0.1, 0.1))
                page.draw_rect(pymupdf.Rect(0, A4[1] - border / 2, A4[0], A4[1]), fill=(0.1, 0.1, 0.1))
            save_scan(made, page, file, Wear(noise=9))
        made.add(file, "blank", "blank")


def scan_of(made: Made, file: str, wear: Wear, draw: Callable[[str], None]) -> None:
    """Draw a PDF of `own_pages` and put its scan in its place, tests included."""
    pdf = f"{file}.pdf"
    draw(pdf)
    with pymupdf.open(made.folder / pdf) as document:
        save_scan(made, document[0], f"{file}.png", wear)
    (made.folder / pdf).unlink()
    for row in made.rows:
        if row["pdf"] == pdf:
            row["pdf"] = f"{file}.png"


MAKERS: list[Callable[[Made], None]] = [
    *(lambda made, name=name, wear=wear: text_scan(made, name, wear) for name, wear in WEARS.items()),
    *(
        lambda made, turn=turn: text_scan(made, f"turned_{turn}", Wear(skew=0.4), turn=turn, group="rotated")
        for turn in (90, 180, 270)
    ),
    lambda made: scan_of(made, "scan_columns", Wear(), lambda pdf: columns(made, 2, pdf)),
    lambda made: scan_of(made, "scan_table", Wear(), lambda pdf: table(made, ruled=True, file=pdf)),
    lambda made: receipt(made, 1, Wear(dpi=250)),
    lambda made: receipt(made, 2, Wear(dpi=250, skew=0.8, noise=14, ink=70)),
    blank_scans,
]
