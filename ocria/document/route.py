"""Choose how a page is read."""

from __future__ import annotations

from dataclasses import dataclass

from ocria.document.facts import PageFacts

# A page number stamped on a scan, or one caption on a picture, is no text layer of the page.
_FEW_LETTERS = 40
_SCAN_COVER = 0.5
_LEAST_INK_IN_TEXT = 0.2


@dataclass(frozen=True, slots=True)
class Route:
    """`kind` is `blank`, `text` or `model`."""

    kind: str
    reason: str


def choose_route(facts: PageFacts, mode: str) -> Route:
    """The route of a page.

    Args:
        facts: what is known of it.
        mode: `auto`, `model` or `text`.
    """
    if facts.blank:
        return Route("blank", "no print in the pixels")
    if mode == "model":
        return Route("model", "mode model")
    if mode == "text":
        return Route("text", "mode text")
    doubt = text_layer_doubt(facts)
    if doubt is not None:
        return Route("model", doubt)
    return Route("text", "trustworthy text layer")


def text_layer_doubt(facts: PageFacts) -> str | None:
    """Why the text layer should not stand for the page, or None."""
    if facts.letters == 0:
        return "only a hidden text layer" if facts.hidden_letters else "no text layer"
    if facts.distrust is not None:
        return facts.distrust
    if facts.image_cover >= _SCAN_COVER and facts.ink_in_text < _LEAST_INK_IN_TEXT:
        return "the ink lies in images, not in the text layer"
    if facts.letters < _FEW_LETTERS and facts.hidden_letters > facts.letters:
        return "most of the text layer is hidden"
    return None
