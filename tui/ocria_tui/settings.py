"""How the app is to look. What documents are read with are the options of its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OUTPUT_DIR = "ocria-out"
"""Where documents and exports go unless told otherwise; as of `ocria parse`."""


@dataclass(slots=True)
class AppSettings:
    """What the command line says about the app itself."""

    theme: str | None = None
    """Name of a theme; None takes the one that was kept, else the app's own."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys by action, parted by commas, for the actions of `ocria_tui.keymap` whose keys are not the default ones."""
    images: bool = True
    """Whether page images are drawn at all."""
    ascii: bool = False
    """No characters beyond ASCII for glyphs, bars and borders."""
    animation: bool = True
