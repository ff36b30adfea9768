"""What models put around an answer although nobody asked: thoughts, fences, words of introduction."""

from __future__ import annotations

import re

_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?(</think(?:ing)?>|\Z)", re.DOTALL)
# Some templates open the thoughts themselves, so that only their end is in the answer.
_LATE_END = re.compile(r"\A(?:(?!<think(?:ing)?>).)*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([\w-]*)[ \t]*\n?")
# Said of a document, and not by one: that is told by what it announces.
_INTRODUCTION = re.compile(
    r"\s*(?:Sure|Certainly|Of course|Okay|Here|Below)\b[^\n]{0,200}?\b"
    r"(?:transcription|transcribed|OCR|Markdown|HTML|JSON|extracted)\b[^\n]{0,120}:[ \t]*(?:\n+|\Z)",
    re.IGNORECASE,
)
_INFO = {
    "markdown": ("markdown", "md"),
    "html": ("html", "xml", ""),
    "json": ("json", "jsonc", ""),
    "text": ("text", "txt", "plaintext", ""),
}


def unwrap(text: str, dialect: str) -> tuple[str, str | None]:
    """The answer itself, and what of its wrapping is still open at its end.

    A fence is taken off only where its language is that of the dialect, or none where Markdown is not the dialect: a
    page may hold nothing but code.
    """
    unclosed = None
    if match := _THOUGHTS.match(text):
        unclosed = None if match[1] else "its thoughts"
        text = text[match.end() :]
    elif match := _LATE_END.match(text):
        text = text[match.end() :]
    if match := _INTRODUCTION.match(text):
        text = text[match.end() :]
    match = _FENCE.match(text)
    if match is None or match[2].lower() not in _INFO[dialect]:
        return text, unclosed
    inner = re.sub(r"\n[`~]{1,2}\Z", "\n", text[match.end() :])
    lines = inner.split("\n")
    ends = [i for i, line in enumerate(lines) if re.fullmatch(rf"\s*{match[1][0]}{{{len(match[1])},}}\s*", line)]
    opened = [
        i for i, line in enumerate(lines) if re.fullmatch(rf"\s*{match[1][0]}{{{len(match[1])},}}[ \t]*[\w+-]+.*", line)
    ]
    # Fences inside come in pairs; the wrapper's own end is the one that is left over.
    if len(ends) <= len(opened):
        return inner, unclosed or "a code fence"
    del lines[ends[-1]]
    return "\n".join(lines), unclosed
