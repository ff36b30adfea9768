"""How found lines compare with lines that are known glyph by glyph.

A known line is a set of atoms: stretches of glyphs without a wide gap. Cutting between the atoms of a
row is neither right nor wrong (a table row's cells), and so is joining atoms that only a middling gap parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Atom:
    """Glyph centres float [n, 2] in page pixels, with what they say; `row`: atoms of one row may be joined."""

    centres: np.ndarray
    text: str
    row: int


@dataclass(slots=True)
class Match:
    """Counts of atoms by outcome; `extra`: found lines without any known glyph. `faults` describe the rest."""

    atoms: int = 0
    whole: int = 0
    cut: int = 0
    merged: int = 0
    missed: int = 0
    extra: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Match) -> None:
        for name in ("atoms", "whole", "cut", "merged", "missed", "extra"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults

    def to_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("atoms", "whole", "cut", "merged", "missed", "extra")}


def match(lines: list, atoms: list[Atom]) -> Match:
    """Compare `ocria.document.lines.Line`s with atoms.

    An atom is whole where one found line holds all its glyphs (one of twenty may lie outside: a glyph's
    centre is only estimated) and that line holds glyphs of no atom of another row.
    """
    result = Match(atoms=len(atoms))
    counts = np.zeros((len(atoms), len(lines)), int)
    for k, atom in enumerate(atoms):
        counts[k] = _held(lines, atom.centres)
    rows = np.array([atom.row for atom in atoms])
    for k, atom in enumerate(atoms):
        total = len(atom.centres)
        best = int(counts[k].argmax()) if len(lines) else -1
        held = int(counts[k, best]) if best >= 0 else 0
        if held < 0.34 * total:
            result.missed += 1
            result.faults.append(f"missed: {atom.text}")
        elif (counts[rows != atom.row, best] > 1).any():
            others = [atoms[j].text for j in np.flatnonzero((rows != atom.row) & (counts[:, best] > 1))]
            result.merged += 1
            result.faults.append(f"merged: {atom.text} <> {others[0]}")
        elif held < total - total // 20:
            result.cut += 1
            result.faults.append(f"cut: {atom.text} ({held} of {total})")
        else:
            result.whole += 1
    if len(lines):
        result.extra = int((counts.sum(axis=0) == 0).sum()) if len(atoms) else len(lines)
    return result


def _held(lines: list, centres: np.ndarray) -> np.ndarray:
    """How many of the points each line holds; a point in several goes to the one whose middle is nearest."""
    if not lines:
        return np.zeros(0, int)
    depth = np.full((len(lines), len(centres)), np.inf)
    for i, line in enumerate(lines):
        # The crop has the ink's size and known margins, so it gives the slanting line's own extent.
        height = line.crop.shape[0] / 1.2
        width = line.crop.shape[1] - 0.6 * height
        cx, cy = 0.5 * (line.box[0] + line.box[2]), 0.5 * (line.box[1] + line.box[3])
        cos, sin = np.cos(np.radians(line.angle)), np.sin(np.radians(line.angle))
        dx, dy = centres[:, 0] - cx, centres[:, 1] - cy
        along, across = dx * cos + dy * sin, dy * cos - dx * sin
        inside = (np.abs(along) <= 0.5 * width + 3) & (np.abs(across) <= 0.5 * height + 2)
        depth[i] = np.where(inside, np.abs(across) / height, np.inf)
    home = np.where(np.isfinite(depth.min(axis=0)), depth.argmin(axis=0), -1)
    return np.bincount(home[home >= 0], minlength=len(lines))
