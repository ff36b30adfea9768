"""What is known of a page before it is read."""

from __future__ import annotations

from dataclasses import dataclass, field


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
