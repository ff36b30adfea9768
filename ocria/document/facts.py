"""What is known of a page before it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from ocria.events import Box


@dataclass(frozen=True, slots=True)
class TextSample:
    """A line of a text layer to compare with the pixels."""

    text: str
    box: Box
    """On the displayed page, in points."""
    turned: int
    """Degrees clockwise by which the displayed page must be turned for the line to stand upright."""


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A font that does not prove what its text layer says."""

    key: str
    """The same for the same font all over the document."""
    letters: int
    """Visible Latin letters and digits of the page in it."""
    samples: tuple[TextSample, ...]


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What is known of a page without reading it."""

    width: float
    """Points, as displayed."""
    height: float
    blank: bool
    """No print in the pixels."""
    letters: int = 0
    """Visible characters of the text layer."""
    hidden_letters: int = 0
    """Characters of the text layer that do not show: invisible, transparent or under an image."""
    ink_in_text: float = 0.0
    """Share of the ink that lies in the boxes of visible characters."""
    image_cover: float = 0.0
    """Share of the page under images."""
    distrust: str | None = None
    """Why the characters cannot be believed."""
    warnings: list[str] = field(default_factory=list)
    """What the PDF engine complained about."""
    missing: str | None = None
    """What of the page could not be decoded and is left out."""
    doubtful: tuple[Doubtful, ...] = ()
    """Fonts of the text layer whose characters only the pixels can prove."""
