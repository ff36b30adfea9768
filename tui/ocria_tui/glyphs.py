"""A sign for every status, beside its colour: nothing is told by colour alone."""

from __future__ import annotations

from unicodedata import combining, normalize

from rich.cells import cell_len

from ocria_tui.state import CANCELLED, DECODE, FAILED, PREFILL, QUEUED, RUNNING, SKIPPED, STARTED, WAITING

GLYPHS = {
    QUEUED: ("·", ".", "muted"),
    STARTED: ("○", "o", "live"),
    WAITING: ("◔", "w", "live"),
    PREFILL: ("◑", "p", "live"),
    DECODE: ("▶", ">", "bright"),
    RUNNING: ("▶", ">", "bright"),
    "ok": ("■", "#", "good"),
    "blank": ("□", "_", "good"),
    "truncated": ("◧", "t", "warn"),
    "degenerate": ("∞", "~", "warn"),
    "timeout": ("◷", "T", "warn"),
    "partial": ("◧", "%", "warn"),
    FAILED: ("✗", "!", "bad"),
    CANCELLED: ("–", "-", "muted"),
    "interrupted": ("–", "-", "warn"),
    SKIPPED: ("»", "=", "muted"),
}
"""Status of a page or a document: its sign, its sign in ASCII, and the role of its colour in a `Palette`."""
UNKNOWN = ("?", "?", "warn")
"""Of a status that a later version of ocria may have."""

SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_ASCII = "_.:-=+*#"

_ASCII = {
    "…": "~", "–": "-", "—": "-", "•": "*", "·": ".", "×": "x", "→": ">", "←": "<", "↑": "^", "↓": "v", "▸": ">",
    "▶": ">", "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "█": "#", "░": ".", "▓": "#", "▔": "-", "▁": "_",
    "✓": "+", "✗": "x", "▲": "^", "▼": "v",
}  # fmt: skip


def glyph(status: str, ascii_only: bool = False) -> tuple[str, str]:
    """The sign of a status and the role of its colour."""
    sign, plain, role = GLYPHS.get(status, UNKNOWN)
    return (plain if ascii_only else sign), role


def spark(values: list[float], ascii_only: bool = False) -> str:
    """A character for each value, as high as it is beside the highest; a space where nothing was done."""
    signs = SPARKS_ASCII if ascii_only else SPARKS
    top = max(values, default=0.0)
    if top <= 0:
        return " " * len(values)
    return "".join(signs[min(len(signs) - 1, int(value / top * len(signs)))] if value > 0 else " " for value in values)


def fold(text: str) -> str:
    """The text in ASCII, as many cells wide as before: letters without their accents, `?` for what has no likeness."""
    return text if text.isascii() else "".join(map(_folded, text))


def _folded(character: str) -> str:
    if character.isascii():
        return character
    cells = cell_len(character)
    like = _ASCII.get(character)
    if like is None and "\u2500" <= character <= "\u257f":  # lines of boxes
        like = "-" if character in "─━═╌╍┄┅┈┉╴╶╸╺╼╾" else "|" if character in "│┃║╎╏┆┇┊┋╵╷╹╻╽╿" else "+"
    if like is None and "\u2580" <= character <= "\u259f":  # blocks
        like = "#"
    if like is None:
        like = "".join(part for part in normalize("NFKD", character) if not combining(part))
        like = like if len(like) == 1 and like.isascii() else "?"
    return like.ljust(cells, "?")[:cells]
