"""Plain text made safe for Markdown: what is printed survives a CommonMark parser with tables, strikethrough and
formulas, and what needs no escape gets none, so that the source stays readable."""

from __future__ import annotations

import re
from string import punctuation

_SPECIAL = re.compile(r"[\\`*_~\]<&$]")
_TAG = re.compile(r"<[A-Za-z/!?]")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
_RUN = re.compile(r"(\*+|_+|~+|`+)")
# What would begin a block where it stands first in a line; the group is what the escape goes before.
_STARTS = tuple(map(re.compile, (
    r"()#{1,6}(?:\s|$)",
    r"()>",
    r"()[-+*](?:\s|$)",
    r"\d{1,9}()[.)](?:\s|$)",
    r"()-[-\s]*$",
)))  # fmt: skip
_LABEL_END = re.compile(r"(?<!\\)((?:\\\\)*)\]:")
_RULE = re.compile(r"([-_*])[ \t]*(?:\1[ \t]*){2,}$")
# What makes the line above it a heading or the head of a table.
_UNDERLINES = re.compile(r"(?:=+|-+|[|:\- \t]*-[|:\- \t]*)\s*$")


def escape_markdown(text: str, *, whole: bool = True) -> str:
    """Escape what Markdown would take for markup in running text.

    A dollar sign is escaped only where two of them could be read as the ends of a formula, a star only where another
    could be its end. What means something at the start of a line only is left to `escape_starts`.

    Args:
        whole: whether this is all of a paragraph; of a part of one nobody knows what marks stand in the others.
    """
    places = escape_places(text, whole=whole)
    return "".join("\\" + c if at in places else c for at, c in enumerate(text)) if places else text


def escape_places(text: str, *, whole: bool = True) -> set[int]:
    """Where in running text `escape_markdown` puts a backslash."""
    if not _SPECIAL.search(text):
        return set()
    places = _runs(text, whole)
    dollars = text.count("$") > 1
    for match in re.finditer(r"[\\\]<&$]", text):
        at, character = match.start(), match[0]
        after = text[at + 1 : at + 2]
        if (
            (character == "\\" and (not after or after in punctuation or after == "\n"))
            or (character == "]" and after == "(")
            or (character == "<" and _TAG.match(text, at))
            or (character == "&" and _ENTITY.match(text, at))
            or (character == "$" and dollars)
        ):
            places.add(at)
    return places


def escape_label(text: str) -> str:
    """Escape the label of a link or an image, which ends with its bracket. Brackets become entities: escaped ones are
    those of a formula to some."""
    places = escape_places(text, whole=False)
    marks = {"[": "&#91;", "]": "&#93;"}
    return "".join(marks.get(c, "\\" + c if at in places else c) for at, c in enumerate(text))


def escape_starts(markdown: str) -> str:
    """Escape what would begin a list, a heading, a quotation, a rule or code at the start of a line of running
    Markdown, whose own characters are escaped already. White space around lines is dropped."""
    lines = []
    for line in markdown.split("\n"):
        line = line.strip()
        # The end of a line may be an escaped break.
        body = line[:-1].rstrip() if line.endswith("\\") and not line.endswith("\\\\") else line
        lines.append(_escaped_start(line, body, first=not lines))
    escaped = "\n".join(lines)
    # The ends of labels are escaped: an escaped beginning is that of a formula to some.
    return _LABEL_END.sub(r"\1\\]:", escaped) if escaped.startswith("[") else escaped


def paragraph(text: str) -> str:
    """Plain text as a Markdown paragraph; a line break stays one."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return escape_starts(escape_markdown("\n".join(line for line in lines if line)).replace("\n", "\\\n"))


def heading(markdown: str, level: int) -> str:
    """Running Markdown as a heading of `level` 1 to 6."""
    words = " ".join(markdown.replace("\\\n", " ").split())
    # Number signs at the end would be the end of the mark-up.
    words = re.sub(r"(^|\s)(#+)$", r"\1\\\2", words)
    return f"{'#' * level} {words}"


def code_block(lines: list[str]) -> str:
    """Lines as fenced code; the fence is longer than any run of backticks in them."""
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _escaped_start(line: str, body: str, first: bool) -> str:
    if rule := _RULE.match(body):
        return line.replace(rule[1], "\\" + rule[1])
    if not first and _UNDERLINES.match(body):
        return "\\" + line
    for pattern in _STARTS:
        if match := pattern.match(body):
            return f"{line[: match.start(1)]}\\{line[match.start(1) :]}"
    return line


def _runs(text: str, whole: bool) -> set[int]:
    """Places of stars, underscores, tildes and backticks that could be marks."""
    places: set[int] = set()
    kinds: dict[str, list[tuple[range, bool, bool]]] = {"*": [], "_": [], "~": [], "`": []}
    for match in _RUN.finditer(text):
        before, after = text[: match.start()][-1:], text[match.end() : match.end() + 1]
        # The mark of a line break will stand in the place of its newline.
        opens = bool(after) and (after == "\n" or not after.isspace())
        closes = bool(before) and (before == "\n" or not before.isspace())
        kind = match[0][0]
        if kind == "_":
            opens, closes = opens and not before.isalnum(), closes and not after.isalnum()
        if kind in "`~" or opens or closes or (not before and not after):
            kinds[kind].append((range(match.start(), match.end()), opens, closes))
    for kind, runs in kinds.items():
        first = next((i for i, (_, opens, _) in enumerate(runs) if opens), len(runs))
        paired = len(runs) > 1 if kind == "`" else any(closes for _, _, closes in runs[first + 1 :])
        if paired or (not whole and kind != "~") or any(len(span) > 2 for span, _, _ in runs):
            places.update(place for span, _, _ in runs for place in span)
    return places
