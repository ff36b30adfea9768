"""The fixed set of characters that the line reader is trained to write.

`CHARSET` is an ordered string without repeats; `in_charset(text)` tells whether a text stays inside it.
The order is part of the format: append, never insert.
"""

import unicodedata

from ocria.document.clean import LOOK_ALIKES

_ASCII = "".join(chr(c) for c in range(0x20, 0x7F))
_LATIN1_SYMBOLS = "¡¢£¥§©ª«®°±²³µ¶·¹º»¼½¾¿×÷"
_LATIN1_LETTERS = "".join(chr(c) for c in range(0xC0, 0x100) if c not in (0xD7, 0xF7))
_EXTENDED_A = "ĀāĂăĄąĆćČčĎďĐđĒēĖėĘęĚěĞğĢģĪīĮįİıĶķĹĺĻļĽľŁłŃńŅņŇňŌōŐőŒœŔŕŘřŚśŞşŠšŢţŤťŪūŮůŰűŲųŸŹźŻżŽž"
_TYPOGRAPHIC = "–—‘’‚“”„†‡•…‹›€™"
# Raised digits keep their own characters, so that one look has one spelling (NFKC makes them plain).
_SUPERSCRIPTS = "⁰⁴⁵⁶⁷⁸⁹"

CHARSET: str = _ASCII + _LATIN1_SYMBOLS + _LATIN1_LETTERS + _EXTENDED_A + _TYPOGRAPHIC + _SUPERSCRIPTS
_SET = frozenset(CHARSET)

SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PLAIN_DIGIT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")

# Look-alikes and typographic spaces that sources use, mapped into the set.
_FOLD = str.maketrans(
    {
        "\u00a0": " ",
        "\u2002": " ",
        "\u2003": " ",
        "\u2009": " ",
        "\u200a": " ",
        "\u202f": " ",
        "\t": " ",
        "\n": " ",
        "\r": " ",
        "\u00ad": None,
        "\u200b": None,
        "\ufeff": None,
        **LOOK_ALIKES,
        "ﬁ": "fi",
        "ﬂ": "fl",
    }
)


def in_charset(text: str) -> bool:
    """Whether every character of `text` is in CHARSET."""
    return _SET.issuperset(text)


def fold(text: str) -> str:
    """`text` in NFC with look-alikes mapped into the set and white space collapsed (may still leave it)."""
    return " ".join(unicodedata.normalize("NFC", text.translate(_FOLD)).split())
