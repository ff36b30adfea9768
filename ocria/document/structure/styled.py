"""Lines of pieces as the text and the Markdown of a block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from markdown_it import MarkdownIt

from ocria.document.clean import breaks_word
from ocria.document.escape import escape_markdown, escape_places, escape_starts
from ocria.document.structure.pieces import Line, Style

Run = tuple[str, Style]
_HYPHENS = "-\u2010"
_UNSPACED = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]")
"""Scripts that set no spaces between words."""


def running(lines: Sequence[Line], *, bold: bool = True, mono: bool = True) -> list[Run]:
    """Lines as running text, words broken at line ends put together; the style of a run holds for all of it.

    Args:
        bold, mono: whether to tell that text is bold or monospaced; a heading is bold by being one.
    """
    runs: list[Run] = []
    said = ""
    for line in lines:
        for at, piece in enumerate(line):
            style = replace(
                piece.style,
                bold=piece.style.bold and bold,
                mono=piece.style.mono and mono,
                # The line under a raised number or a link may touch a letter.
                struck=piece.style.struck and sum(map(str.isalnum, piece.text)) > 2,
            )
            space = " " if piece.spaced else ""
            if not said:
                space = ""
            elif at == 0:
                space = _seam(said, piece.text)
                if space is None:
                    said, space = said[:-1], ""
                    runs[-1] = (runs[-1][0][:-1], runs[-1][1])
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + space + piece.text, style)
            else:
                if space:
                    runs[-1] = (runs[-1][0] + space, runs[-1][1])
                runs.append((piece.text, style))
            said += space + piece.text
    return [run for run in runs if run[0]]


def plain(runs: Sequence[Run]) -> str:
    return "".join(text for text, _ in runs)


def marked(runs: Sequence[Run], *, starts: bool = True) -> str:
    """Runs as running Markdown. Marks that a reader of Markdown would not take for marks are left out: the words count.

    Args:
        starts: whether it stands at the start of a line, where it must not begin a list or the like.
    """
    escaped = escape_starts if starts else str
    text = plain(runs)
    if any(style != Style() for _, style in runs):
        markdown = escaped(_with_marks(runs))
        if _read(markdown) == _squeezed(text):
            return markdown
    return escaped(escape_markdown(text))


def without_start(runs: Sequence[Run], count: int) -> list[Run]:
    """The runs without their first characters and the space behind those."""
    rest: list[Run] = []
    for text, style in runs:
        skipped = min(count, len(text))
        count -= skipped
        text = text[skipped:] if rest else text[skipped:].lstrip()
        if text:
            rest.append((text, style))
    return rest


def _seam(before: str, after: str) -> str | None:
    """What stands between two lines; None where a hyphen before it goes too."""
    if breaks_word(before, after):
        return None
    if before[-1] in _HYPHENS and before[-2:-1].isalnum():
        return ""
    return "" if _UNSPACED.match(before[-1]) and _UNSPACED.match(after[0]) else " "


def _with_marks(runs: Sequence[Run]) -> str:
    said = plain(runs)
    places = escape_places(said, whole=False)
    out = []
    at = 0
    for text, style in runs:
        words = text.strip()
        first = at + text.index(words)
        last = first + len(words)
        if style.mono and words:
            inner = _code(words)
        else:
            inner = "".join("\\" + c if place in places else c for place, c in enumerate(words, first))
            if not _takes_marks(said[:first][-1:], inner, said[last : last + 1]):
                style = replace(style, bold=False, italic=False, struck=False)
        out.append(said[at:first] + _wrapped(inner, style) + said[last : at + len(text)])
        at += len(text)
    return "".join(out)


def _takes_marks(before: str, inner: str, after: str) -> bool:
    """Whether marks around a text are marks: between a letter and a sign they are not."""
    starts = inner[:1].isalnum() or not before.isalnum()
    return starts and (inner[-1:].isalnum() or not after.isalnum())


def _wrapped(inner: str, style: Style) -> str:
    if not inner:
        return ""
    mark = "*" * (2 * style.bold + style.italic)
    if style.struck:
        inner = f"~~{inner}~~"
    inner = f"{mark}{inner}{mark}"
    return f"<sup>{inner}</sup>" if style.raised else inner


def _code(text: str) -> str:
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("strikethrough")


def _read(markdown: str) -> str:
    """What a reader of running Markdown sees, without white space."""
    tokens = _parser().parseInline(markdown)[0].children or []
    return _squeezed("".join(token.content for token in tokens if token.type != "html_inline"))


def _squeezed(text: str) -> str:
    return "".join(text.split())
