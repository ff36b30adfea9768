"""Made pages whose lines are known exactly: columns, headings, footnotes, tables, rules, borders, skew, noise."""

from __future__ import annotations

import random
import string

import numpy as np
import pymupdf
from lines_match import Atom
from PIL import Image, ImageFilter

FACES = ("helv", "tiro", "cour", "tibo", "heit", "hebo", "tiit")
DPI = 200


class Page:
    """A PDF page that remembers the glyph centres of each line put on it."""

    def __init__(self, rng: random.Random, width: float, height: float):
        self.rng = rng
        self.document = pymupdf.open()
        self.page = self.document.new_page(width=width, height=height)
        self.width, self.height = width, height
        self.atoms: list[Atom] = []

    def put(self, x: float, y: float, text: str, face: str, size: float, colour=(0, 0, 0)) -> float:
        """One line with its baseline at y; returns its end."""
        self.page.insert_text((x, y), text, fontname=face, fontsize=size, color=colour)
        font = pymupdf.Font(face)
        ends = x + np.cumsum([font.text_length(c, size) for c in text])
        starts = np.concatenate([[x], ends[:-1]])
        centres = [(0.5 * (a + b), y - 0.25 * size) for a, b, c in zip(starts, ends, text, strict=True) if c.isalnum()]
        if centres:
            self.atoms.append(Atom(np.array(centres), text, len(self.atoms)))
        return float(ends[-1])

    def words(self, width: float, face: str, size: float) -> str:
        """Random words, as many as fit."""
        font, text = pymupdf.Font(face), ""
        while True:
            word = "".join(self.rng.choices(string.ascii_lowercase, k=self.rng.randint(1, 10)))
            if self.rng.random() < 0.15:
                word = word.capitalize()
            if self.rng.random() < 0.12:
                word += self.rng.choice(",.;:?!")
            if self.rng.random() < 0.06:
                word = str(self.rng.randint(1, 9999))
            longer = f"{text} {word}".strip()
            if font.text_length(longer, size) > width:
                return text or longer[:3]
            text = longer

    def column(self, x: float, y: float, width: float, bottom: float, face: str, size: float) -> float:
        """Ragged paragraphs from y down to bottom; returns the next baseline."""
        lead = size * self.rng.uniform(1.12, 1.4)
        while y < bottom:
            indent = size if self.rng.random() < 0.2 else 0
            share = 1.0 if self.rng.random() < 0.85 else self.rng.uniform(0.2, 0.9)
            self.put(x + indent, y, self.words((width - indent) * share, face, size), face, size)
            y += lead
        return y

    def table(self, x: float, y: float, width: float, rows: int, columns: int, face: str, size: float) -> float:
        """A ruled table of short cells."""
        pitch, cell = size * 1.6, width / columns
        for r in range(rows):
            for c in range(columns):
                text = self.words(cell * 0.5, face, size) if c == 0 else f"{self.rng.uniform(0, 999):.2f}"
                self.put(x + c * cell + size * 0.4, y + r * pitch, text, face, size)
        top, bottom = y - size * 1.15, y - size * 1.15 + rows * pitch
        for r in range(rows + 1):
            self.page.draw_line((x, top + r * pitch), (x + width, top + r * pitch), width=0.6)
        for c in range(columns + 1):
            self.page.draw_line((x + c * cell, top), (x + c * cell, bottom), width=0.6)
        return bottom + size * 2

    def image(self) -> np.ndarray:
        """The page uint8 [H, W] at DPI."""
        pixels = self.page.get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY)
        return np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width).copy()


def made_page(seed: int) -> tuple[np.ndarray, list[Atom], str]:
    """A page, its lines in pixels and its kind."""
    rng = random.Random(seed)
    kind = ("prose", "columns", "table", "rotated", "bordered", "noisy")[seed % 6]
    page = Page(rng, 595, 842)
    face, size = rng.choice(FACES), rng.uniform(7.5, 12.5)
    page.put(60, 50, str(rng.randint(1, 400)), face, size)
    heading = rng.choice(FACES)
    big = rng.uniform(16, 30)
    page.put(60, 95, page.words(300, heading, big), heading, big)
    page.page.draw_line((60, 108), (535, 108), width=rng.uniform(0.5, 2))
    if kind == "columns":
        count = rng.choice((2, 2, 3))
        gutter = rng.uniform(12, 24)
        width = (475 - gutter * (count - 1)) / count
        for c in range(count):
            page.column(60 + c * (width + gutter), 135, width, 700, face, min(size, 9.5))
    elif kind == "table":
        y = page.column(60, 135, 475, 250, face, size)
        y = page.table(60, y + 20, 475, rng.randint(3, 12), rng.randint(3, 5), face, min(size, 10))
        page.column(60, y + 10, 475, 700, face, size)
    else:
        page.column(60, 135, 475, 700, face, size)
    page.page.draw_line((60, 740), (200, 740), width=0.5)
    page.column(60, 755, 475, 790, face, 6.8)
    return _scanned(page, rng, kind)


def _scanned(page: Page, rng: random.Random, kind: str) -> tuple[np.ndarray, list[Atom], str]:
    gray = page.image()
    scale = DPI / 72
    atoms = [Atom(a.centres * scale, a.text, a.row) for a in page.atoms]
    noise = np.random.default_rng(rng.randrange(2**32))
    if kind in ("rotated", "noisy"):
        gray, atoms = _turned(gray, atoms, rng.uniform(-4, 4) if kind == "rotated" else rng.uniform(-0.8, 0.8))
    if kind == "bordered":
        gray[:, : rng.randint(10, 70)] = 0
        gray[-rng.randint(10, 60) :, :] = 0
        ragged = noise.integers(0, 14, gray.shape[0])
        for row, extra in enumerate(ragged):
            gray[row, gray.shape[1] - 20 - extra :] = 0
        for y, x in zip(noise.integers(0, gray.shape[0], 150), noise.integers(0, gray.shape[1], 150), strict=True):
            gray[y : y + noise.integers(1, 4), x : x + noise.integers(1, 4)] = 0
        gray = np.where(gray < 128, 0, 255).astype(np.uint8)
    if kind == "noisy":
        light = np.linspace(1.0, rng.uniform(0.55, 0.8), gray.shape[1])[None, :]
        blurred = np.asarray(Image.fromarray(gray).filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 1.1))))
        grain = noise.normal(0, rng.uniform(3, 12), gray.shape)
        gray = np.clip((40 + blurred * (215 / 255)) * light + grain, 0, 255).astype(np.uint8)
    return gray, atoms, kind


def _turned(gray: np.ndarray, atoms: list[Atom], degrees: float) -> tuple[np.ndarray, list[Atom]]:
    """Page and lines turned clockwise about the middle."""
    height, width = gray.shape
    turned = np.asarray(Image.fromarray(gray).rotate(-degrees, Image.BICUBIC, fillcolor=255))
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    middle = np.array([width / 2, height / 2])
    spin = np.array([[cos, sin], [-sin, cos]])
    return turned.copy(), [Atom((a.centres - middle) @ spin + middle, a.text, a.row) for a in atoms]
