"""Lines of Hebrew and Arabic in the order a person reads them.

Producers draw such lines in the order of reading or of the page; either way the places of the letters tell how the line
is read: from the right, but numbers and Latin words in it from the left. A few producers know nothing of this and draw
the letters in the order of reading from left to right. The page then shows them backwards, which gives itself away by
letters that stand at the ends of words alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

import pymupdf

_HEBREW_FINAL = "ךםןףץ"
_HEBREW_NOT_FINAL = "כמנצ"
_ARABIC_FINAL = "ةى"
_LEAST_WORD = 3

Char = dict
"""A character of MuPDF's `rawdict`."""


def set_reading_order(blocks: Iterable[dict]) -> None:
    """Bring the characters of all level lines that hold Hebrew or Arabic into reading order.

    Args:
        blocks: those of `Page.get_text("rawdict")` of a page without rotation; they are changed in place.
    """
    lines = []
    for block in blocks:
        found = block.get("lines", [])
        if any(map(_is_right_to_left, found)):
            block["lines"] = _joined(found)
            lines += [line for line in block["lines"] if _is_right_to_left(line)]
    if not lines:
        return
    ordered = [_in_reading_order(_units(line)) for line in lines]
    backwards = _stand_backwards(["".join(char["c"] for char, _ in units) for units in ordered])
    for line, units in zip(lines, ordered, strict=True):
        _put(line, sorted(units, key=_place) if backwards else units)


def is_right_to_left(text: str) -> bool:
    """Whether any of the characters belongs to a script that runs from right to left."""
    return any("\u0590" <= c <= "\u08ff" or "\ufb1d" <= c <= "\ufefc" for c in text)


Unit = tuple[Char, int]
"""A character and the number of its span in the line."""


def _is_right_to_left(line: dict) -> bool:
    if line["dir"][0] < 0.98:
        return False
    return any(is_right_to_left(char["c"]) for span in line["spans"] for char in span["chars"])


def _joined(lines: Sequence[dict]) -> list[dict]:
    """Lines put together where MuPDF parted one because its letters do not follow each other from left to right."""
    joined: list[dict] = []
    for line in lines:
        home = next((other for other in joined if _is_same_line(other, line)), None)
        if home is None:
            joined.append(line)
        else:
            home["spans"] = home["spans"] + line["spans"]
            home["bbox"] = tuple(pymupdf.Rect(home["bbox"]) | pymupdf.Rect(line["bbox"]))
    return joined


def _is_same_line(one: dict, other: dict) -> bool:
    size = max(one["spans"][0]["size"], other["spans"][0]["size"])
    apart = max(one["bbox"][0], other["bbox"][0]) - min(one["bbox"][2], other["bbox"][2])
    level = one["dir"] == other["dir"] and one["dir"][0] > 0.98
    return level and abs(_baseline(one) - _baseline(other)) < 0.1 * size and apart < size


def _baseline(line: dict) -> float:
    return line["spans"][0]["chars"][0]["origin"][1]


def _units(line: dict) -> list[Unit]:
    return [(char, number) for number, span in enumerate(line["spans"]) for char in span["chars"]]


def _place(unit: Unit) -> tuple[float, bool]:
    """By the middle of the character; a mark stands with its letter, after it."""
    x0, _, x1, _ = unit[0]["bbox"]
    return (x0 + x1) / 2, unicodedata.combining(unit[0]["c"]) > 0


def _in_reading_order(units: list[Unit]) -> list[Unit]:
    """Characters of a line as it is read, judged by where they stand."""
    groups = _with_marks(units)
    strong = [_direction(group[0][0]["c"]) for group in groups]
    from_right = strong.count("R") >= strong.count("L")
    base = "R" if from_right else "L"
    directions = _resolved(strong, base, [group[0][0]["c"] for group in groups])
    runs = [[group for group, _ in run] for _, run in groupby(zip(groups, directions, strict=True), key=lambda g: g[1])]
    kinds = [kind for kind, _ in groupby(directions)]
    runs = [run[::-1] if kind == "R" else run for run, kind in zip(runs, kinds, strict=True)]
    if from_right:
        runs.reverse()
    return [unit for run in runs for group in run for unit in group]


def _with_marks(units: Sequence[Unit]) -> list[list[Unit]]:
    """Letters from left to right, each with the marks over and under it and with the other letters of its ligature,
    which MuPDF gives no width and puts at the right end of the first."""
    standing = [unit for unit in units if not _leans(unit)]
    groups = [[letter] for letter in sorted(standing or units, key=_place)]
    for unit in (unit for unit in units if standing and _leans(unit)):
        if unicodedata.combining(unit[0]["c"]):
            x = _place(unit)[0]
            min(groups, key=lambda group: abs(_place(group[0])[0] - x)).append(unit)
        else:
            x = unit[0]["bbox"][0]
            home = min(groups, key=lambda group: abs(group[0][0]["bbox"][2] - x))
            # MuPDF has turned the letters of a ligature round together with the line.
            home.insert(1 if _direction(unit[0]["c"]) == "R" else len(home), unit)
    return groups


def _leans(unit: Unit) -> bool:
    character, (x0, _, x1, _) = unit[0]["c"], unit[0]["bbox"]
    return unicodedata.combining(character) > 0 or (x1 - x0 < 0.01 and not character.isspace())


def _direction(character: str) -> str:
    """`R`, `L`, or `N` where it goes with what is around it."""
    kind = unicodedata.bidirectional(character)
    if kind in ("R", "AL"):
        return "R"
    return "L" if kind in ("L", "EN", "AN") else "N"


def _resolved(strong: Sequence[str], base: str, characters: Sequence[str]) -> list[str]:
    """Directions of all characters from left to right: what has none goes with its neighbours where they agree."""
    before: list[str] = []
    last = base
    for direction in strong:
        last = direction if direction != "N" else last
        before.append(last)
    after: list[str] = []
    last = base
    for direction in reversed(strong):
        last = direction if direction != "N" else last
        after.append(last)
    after.reverse()
    resolved = []
    for i, direction in enumerate(strong):
        if direction != "N":
            resolved.append(direction)
        elif before[i] == after[i] == "L" and base == "R" and characters[i].isspace() and _parts_numbers(characters, i):
            # Two numbers beside each other in a line from the right are read from the right.
            resolved.append("R")
        else:
            resolved.append(before[i] if before[i] == after[i] else base)
    return resolved


def _parts_numbers(characters: Sequence[str], at: int) -> bool:
    around = [characters[i] for i in (at - 1, at + 1) if 0 <= i < len(characters)]
    return len(around) == 2 and all(c.isdigit() for c in around)


def _stand_backwards(texts: Sequence[str]) -> bool:
    """Whether the letters of a page stand backwards, by those that can only begin or only end a word."""
    right = wrong = 0
    for text in texts:
        for word in text.split():
            letters = "".join(c for c in word if c.isalpha())
            if len(letters) >= _LEAST_WORD:
                right += _ends_well(letters)
                wrong += _ends_well(letters[::-1])
    return wrong > right


def _ends_well(word: str) -> int:
    """Signs that a word is spelt from its beginning to its end."""
    first, last = word[0], word[-1]
    signs = (last in _HEBREW_FINAL) + (first in _HEBREW_NOT_FINAL and last not in _HEBREW_NOT_FINAL)
    signs += (last in _ARABIC_FINAL) + word.startswith("ال")
    return signs + (_form(first) == "<initial>") + (_form(last) == "<final>")


def _form(character: str) -> str:
    return unicodedata.decomposition(character).partition(" ")[0]


def _put(line: dict, units: Sequence[Unit]) -> None:
    """Give the line these characters, in spans that look as before."""
    spans = line["spans"]
    line["spans"] = [
        {**spans[number], "chars": [char for char, _ in run]}
        for number, run in groupby(units, key=lambda unit: unit[1])
    ]
