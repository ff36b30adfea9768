"""Small repairs of text: ligatures, soft and line-end hyphens, control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_LIGATURES = {ord(c): s for c, s in zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True)}
# U+FFFE and U+0002 stand for hyphens at line ends in some extractors; neither is a character of a text.
# Nor are marks that turn the direction of what follows: lines are in the order of reading.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
# Arabic letters in the form that their place in the word gives them.
_ARABIC_FORMS = re.compile(r"[\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdc7\ufdf0-\ufdf9\ufe70-\ufefc]")
_SOFT_HYPHEN = "\xad"
_HYPHENS = "-\u2010"

LOOK_ALIKES = {
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "–",
    "\u2212": "–",
    "\u2015": "—",
    "\u02bc": "’",
    "\u2032": "'",
    "\u2033": '"',
    "´": "'",
    "ſ": "s",
}
"""Characters that look like another, and that one: a model that reads print knows one spelling of each look."""


def clean_text(text: str) -> str:
    """Ligatures spelt out, Arabic letters without their forms, and control characters dropped; a soft hyphen stays
    only at the end."""
    text = _CONTROLS.sub("", text.translate(_LIGATURES))
    text = _ARABIC_FORMS.sub(lambda form: unicodedata.normalize("NFKC", form[0]), text)
    ends_soft = text.rstrip().endswith(_SOFT_HYPHEN)
    text = text.replace(_SOFT_HYPHEN, "")
    return text.rstrip() + "-" if ends_soft else text


def join_lines(lines: Sequence[str]) -> str:
    """Lines of one paragraph as running text, words broken at line ends put together again."""
    text = ""
    for line in (line.strip() for line in lines):
        if not line:
            continue
        if not text:
            text = line
        elif breaks_word(text, line):
            text = text[:-1] + line
        elif text[-1] in _HYPHENS and text[-2:-1].isalnum():
            text += line
        else:
            text = f"{text} {line}"
    return text


def breaks_word(before: str, after: str) -> bool:
    """Whether the hyphen that ends `before` only marks a word broken at the line's end.

    It does between letters where the next line goes on in lower case, unless the word has a hyphen
    already (`state-of-the-` + `art`).
    """
    if len(before) < 3 or before[-1] not in _HYPHENS or not after[:1].islower():
        return False
    word = before.split()[-1][:-1]
    return len(word) >= 2 and word[-1].isalpha() and not any(hyphen in word for hyphen in _HYPHENS)
