"""Known lines: of born-digital PDF pages as images, and Tesseract's second opinion on scans."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
from lines_match import Atom

ATOM_GAP = 0.6
"""Gap in font sizes from which a row falls into atoms."""

CELL_GAP = 2.5
"""Gap in font sizes from which atoms of one row belong to different lines for sure."""


def pdf_atoms(page, scale: float) -> list[Atom]:
    """The level lines of a `pymupdf.Page`, in pixels of its image at `scale` pixels a point."""
    atoms: list[Atom] = []
    row = 0
    for block in page.get_text("rawdict")["blocks"]:
        rows: list[tuple[float, float, list]] = []
        for line in block.get("lines", []):
            if abs(line["dir"][1]) > 0.01 or line["dir"][0] < 0:
                continue
            chars = [
                (c["bbox"][0], c["bbox"][2], c["origin"][1], span["size"], c["c"])
                for span in line["spans"]
                for c in span["chars"]
                if not c["c"].isspace() and _visible(c, page)
            ]
            if chars:
                base, size = np.median([c[2] for c in chars]), np.median([c[3] for c in chars])
                for known in rows:
                    if abs(known[0] - base) < 0.25 * size and 0.6 < known[1] / size < 1.6:
                        known[2].extend(chars)
                        break
                else:
                    rows.append((base, size, chars))
        for base, size, chars in rows:
            if any(_is_script(base, size, chars, other) for other in rows):
                continue
            row += 1
            row = _split(sorted(chars), size, scale, row, atoms)
    return atoms


def _is_script(base: float, size: float, chars: list, host: tuple[float, float, list]) -> bool:
    """A superscript or subscript beside larger glyphs: no line of its own."""
    host_base, host_size, others = host
    if size > 0.85 * host_size or not -0.9 * host_size < base - host_base < 0.5 * host_size:
        return False
    middle = 0.5 * (min(c[0] for c in chars) + max(c[1] for c in chars))
    return min(c[0] for c in others) - host_size < middle < max(c[1] for c in others) + host_size


def _visible(char: dict, page) -> bool:
    x0, y0, x1, y1 = char["bbox"]
    return x0 >= 0 and y0 >= 0 and x1 <= page.rect.width and y1 <= page.rect.height and x1 > x0


def _split(chars: list, size: float, scale: float, row: int, atoms: list[Atom]) -> int:
    start = 0
    for k in range(1, len(chars) + 1):
        gap = chars[k][0] - chars[k - 1][1] if k < len(chars) else np.inf
        if gap > ATOM_GAP * size:
            part = chars[start:k]
            if any(c[4].isalnum() for c in part):
                centres = [((c[0] + c[1]) / 2 * scale, (c[2] - 0.25 * c[3]) * scale) for c in part]
                atoms.append(Atom(np.array(centres), "".join(c[4] for c in part), row))
            start = k
            if gap > CELL_GAP * size:
                row += 1
    return row


def tesseract_atoms(image: Path) -> list[Atom]:
    """Tesseract's lines of a page image: one point per word, less those that are only marks."""
    run = subprocess.run(
        ["tesseract", str(image), "stdout", "--psm", "3", "-l", "eng", "tsv"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_THREAD_LIMIT": "1"},
    )
    lines: dict[tuple, list] = {}
    for record in run.stdout.splitlines()[1:]:
        field = record.split("\t")
        if field[0] == "5" and float(field[10]) > 30 and any(c.isalnum() for c in field[11]):
            left, top, width, height = map(int, field[6:10])
            lines.setdefault(tuple(field[1:5]), []).append((left, left + width, top, height, field[11]))
    atoms: list[Atom] = []
    for row, words in enumerate(lines.values()):
        words.sort()
        size = float(np.median([w[3] for w in words]))
        start = 0
        for k in range(1, len(words) + 1):
            if k == len(words) or words[k][0] - words[k - 1][1] > 2 * size:
                part = words[start:k]
                points = [((w[0] + w[1]) / 2, w[2] + 0.5 * w[3]) for w in part]
                atoms.append(Atom(np.array(points), " ".join(w[4] for w in part), row))
                start = k
    return atoms
