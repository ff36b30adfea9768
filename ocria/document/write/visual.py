"""Text in the order in which its letters stand on the page.

PDF readers take letters for written from left to right as they are placed and turn those of right-to-left scripts
around themselves. Source: Unicode Standard Annex 9, without embeddings and isolates.
"""

from __future__ import annotations

from unicodedata import bidirectional

_NUMBERS = ("EN", "AN")
_RIGHT = ("R", "AL")


def visual_order(text: str) -> str:
    """One line of text, from left to right; the same text where nothing runs from right to left."""
    kinds = [bidirectional(character) for character in text]
    if not any(kind in _RIGHT for kind in kinds):
        return text
    strong = next(kind for kind in kinds if kind == "L" or kind in _RIGHT)
    levels = _levels(_resolved(kinds), 0 if strong == "L" else 1)
    order = list(range(len(text)))
    for level in range(max(levels), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = reversed(order[start:end])
            start = end + 1
    return "".join(text[i] for i in order)


def _resolved(kinds: list[str]) -> list[str]:
    """`L`, `R`, `N` for numbers in right-to-left text, and empty for neutral characters."""
    found: list[str] = []
    last = ""
    for at, kind in enumerate(kinds):
        between = kind in ("CS", "ES") and 0 < at < len(kinds) - 1 and kinds[at - 1] == kinds[at + 1] == "EN"
        if kind in ("L", *_RIGHT):
            last = "L" if kind == "L" else "R"
            found.append(last)
        elif kind in _NUMBERS:
            found.append("N" if last == "R" else "L")
        elif between or (kind == "NSM" and found):
            found.append(found[-1])
        else:
            found.append("")
    return found


def _levels(kinds: list[str], base: int) -> list[int]:
    """The depth of each character: odd ones run from right to left."""
    levels: list[int] = []
    for at, kind in enumerate(kinds):
        if kind:
            levels.append({"L": 2 * base, "R": 1, "N": 2}[kind])
            continue
        before = next((k for k in reversed(kinds[:at]) if k), "")
        after = next((k for k in kinds[at:] if k), "")
        sides = {"R" if side == "N" else side or ("R" if base else "L") for side in (before, after)}
        if len(sides) == 2:
            levels.append(base)
        else:
            levels.append(1 if sides == {"R"} else 2 * base)
    return levels
