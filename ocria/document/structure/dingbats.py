"""ZapfDingbats as characters: MuPDF tells the letters of keys instead where a font has no names for its glyphs."""

from __future__ import annotations

_FONT = "ZapfDingbats"


def as_dingbats(text: str, font: str) -> str:
    """Text of a font as it shows: where the font is ZapfDingbats, Latin letters and digits are signs."""
    if _FONT not in font or not text.isascii():
        return text
    return "".join(map(_sign, text))


def _sign(char: str) -> str:
    if char in _ELSEWHERE:
        return _ELSEWHERE[char]
    return chr(0x2701 + ord(char) - 0x21) if "!" <= char <= "~" else char


# Signs that Unicode has elsewhere; the others stand in its block of dingbats in their order.
_ELSEWHERE = dict(zip("%*+Hlnstuw", "\u260e\u261b\u261e\u2605\u25cf\u25a0\u25b2\u25bc\u25c6\u25d7", strict=True))
