"""Output of a reader made ready for searching: Markdown and HTML mark-up gone, one kind of quote and dash.

Both the text sought and the text searched go through `searchable`, so that mark-up costs no reader anything.
"""

from __future__ import annotations

import html
import re
import unicodedata

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]*\)")
_INLINE_TAG = re.compile(r"</?(?:b|i|u|s|em|strong|sup|sub|span|mark|a)(?:\s[^<>]*)?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w\\])([*_])(?=\S)([^*_\n]+?)(?<=\S)\1(?!\w)")
_LINE_START = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+)", re.MULTILINE)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACE = re.compile(r"\s+")
_ONE_KIND = str.maketrans(
    {**dict.fromkeys("‘’‚", "'"), **dict.fromkeys("“”„", '"'), **dict.fromkeys("‐‑‒–—−", "-"), "µ": "μ", "\u00ad": None}
)


def searchable(markdown: str) -> str:
    """Text without Markdown and HTML mark-up, NFKC, with straight quotes, plain hyphens and single spaces.

    Words that a line end parts with a hyphen stay parted: whether the hyphen belongs to the word is not known here.
    """
    text = _IMAGE.sub(" ", _COMMENT.sub(" ", markdown))
    text = _LINK.sub(r"\1", text)
    text = _TAG.sub(" ", _INLINE_TAG.sub("", text))
    text = _LINE_START.sub("", text)
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    text = html.unescape(_ESCAPE.sub(r"\1", text))
    text = unicodedata.normalize("NFKC", text.translate(_ONE_KIND)).translate(_ONE_KIND)
    return _SPACE.sub(" ", text).strip()
