"""Themes of the app, and the colours that its panes draw with."""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter
from textual.theme import Theme

from ocria_tui.glyphs import fold

DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND = "ocria-dark", "ocria-light", "ocria-high-contrast", "ocria-colour-blind"

THEMES = (
    Theme(
        DARK,
        primary="#5fa8d3", secondary="#8a7fb8", accent="#f2b84b", success="#7fbf7f", warning="#e0a050", error="#e06c6c",
        foreground="#d8d8d8", background="#16181c", surface="#1b1e24", panel="#2a2f38",
    ),
    Theme(
        LIGHT,
        primary="#1f6f9f", secondary="#5b4b8a", accent="#9a5b00", success="#2c7a2c", warning="#9a5b00", error="#b02a2a",
        foreground="#202124", background="#fbfaf7", surface="#ffffff", panel="#d9d6cf", dark=False,
    ),
    Theme(
        HIGH_CONTRAST,
        primary="#00ffff", secondary="#ffffff", accent="#ffff00", success="#00ff00", warning="#ffff00", error="#ff6060",
        foreground="#ffffff", background="#000000", surface="#000000", panel="#404040",
    ),
    # Blue, orange, yellow and vermilion of Okabe and Ito, which keep apart whichever cones are missing.
    Theme(
        COLOUR_BLIND,
        primary="#56b4e9", secondary="#cc79a7", accent="#f0e442", success="#56b4e9", warning="#e69f00", error="#e8743b",
        foreground="#e0e0e0", background="#14161a", surface="#1a1d22", panel="#2c313a",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Palette:
    """Styles by what they mean. They have no background, so that a pane keeps its own."""

    text: Style
    muted: Style
    good: Style
    warn: Style
    bad: Style
    live: Style
    bright: Style
    title: Style
    cursor: Style
    """Where the keyboard is; reversed, so that it shows without colours too."""
    mark: Style
    """A place that was looked for."""
    dark: bool

    @classmethod
    def of(cls, theme: Theme) -> Palette:
        """Of a theme, ours or one of Textual's own."""
        colours = theme.to_color_system().generate()
        front, back = _colour(colours["foreground"], theme.dark), _colour(colours["background"], not theme.dark)
        primary, accent = _colour(colours["primary"], theme.dark), _colour(colours["accent"], theme.dark)

        def ink(colour: Color, **more: bool) -> Style:
            return Style(color=colour.rich_color, **more)

        return cls(
            text=ink(front),
            muted=ink(front.blend(back, 0.4)),
            good=ink(_colour(colours["success"], theme.dark)),
            warn=ink(_colour(colours["warning"], theme.dark)),
            bad=ink(_colour(colours["error"], theme.dark), bold=True),
            live=ink(primary),
            bright=ink(accent, bold=True),
            title=ink(primary, bold=True),
            cursor=ink(accent, bold=True, reverse=True),
            mark=ink(accent, reverse=True),
            dark=theme.dark,
        )

    def role(self, name: str) -> Style:
        return getattr(self, name)


class Ascii(LineFilter):
    """Turns all that is drawn into ASCII, borders and text of documents included."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control or segment.text.isascii() else Segment(fold(segment.text), segment.style)
            for segment in segments
        ]


def _colour(value: str, light: bool) -> Color:
    """Some themes have a colour of the terminal, of which only the terminal knows what it is."""
    try:
        colour = Color.parse(value)
    except ColorParseError:
        colour = None
    if colour is None or colour.ansi is not None:
        return Color.parse("#e0e0e0" if light else "#101010")
    return colour
