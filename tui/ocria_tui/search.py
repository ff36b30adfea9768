"""Words in what was read of a document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ocria_tui.state import DocumentState, PageState


class Hit(NamedTuple):
    """A place in the text of a page, in characters."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Search:
    """Words that were looked for, and where they stand. Upper and lower case are alike, and so are line breaks and
    spaces."""

    path: str
    words: str
    hits: tuple[Hit, ...]
    index: int | None
    """Which of the hits is shown."""

    @classmethod
    def of(cls, document: DocumentState, words: str, page: int = 1) -> Search:
        """Look for words; the first hit on the page, or behind it, is the one to show."""
        hits = find(document, words)
        index = next((place for place, hit in enumerate(hits) if hit.page >= page), 0) if hits else None
        return cls(document.path, words, hits, index)

    @property
    def hit(self) -> Hit | None:
        return None if self.index is None else self.hits[self.index]

    def step(self, document: DocumentState, step: int) -> Search:
        """The next hit, or the one before, in what has been read by now."""
        hits = find(document, self.words)
        if not hits:
            return Search(self.path, self.words, (), None)
        if self.hit is None:
            return Search(self.path, self.words, hits, 0 if step > 0 else len(hits) - 1)
        before = sum(hit < self.hit for hit in hits)
        here = before < len(hits) and hits[before] == self.hit
        place = before + step if here or step < 0 else before
        return Search(self.path, self.words, hits, place % len(hits))


def find(document: DocumentState, words: str) -> tuple[Hit, ...]:
    """All places in the order of the pages."""
    found = pattern(words)
    if found is None:
        return ()
    return tuple(
        Hit(number, match.start(), match.end())
        for number, page in sorted(document.pages.items())
        for match in found.finditer(text_of(page))
    )


def pattern(words: str) -> re.Pattern[str] | None:
    """What finds words, None where there are none."""
    parts = words.split()
    return re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE) if parts else None


def text_of(page: PageState) -> str:
    """The Markdown of a page, or what has come of it so far, line by line."""
    if page.markdown is not None:
        return page.markdown
    return "\n".join(page.units[unit] for unit in sorted(page.units))


def markdown_of(document: DocumentState) -> str:
    """The pages that have text, parted by empty lines."""
    texts = (text_of(page).strip("\n") for _, page in sorted(document.pages.items()))
    return "".join(f"{text}\n\n" for text in texts if text).removesuffix("\n")
