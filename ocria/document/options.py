"""What a caller may choose for one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ocria.errors import UsageError

MODES = ("auto", "model", "text")
UNITS = ("page", "line")


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Options of `ocria.parse` and `ocria.stream`; the command line has the same ones.

    Raises:
        UsageError: a value out of its range.
    """

    pages: str | Sequence[int] | None = None
    """1-based pages, as `"1-3,8"` or a sequence of numbers; None reads all."""
    mode: str = "auto"
    """`auto` takes a trustworthy text layer and reads the pixels elsewhere, `model` always reads the
    pixels, `text` only takes the text layer."""
    password: str | None = None
    dpi: int | None = None
    """Resolution at which PDF pages are rendered for the model; None takes that of the scan, or 300."""
    model: str | None = None
    """Folder or name of a checkpoint; None takes the one that ships with ocria."""
    device: str | None = None
    dtype: str | None = None
    batch: int | None = None
    """Most requests that run at the same time."""
    threads: int | None = None
    prompt: str | None = None
    unit: str | None = None
    max_output_tokens: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    dialect: str | None = None

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        if self.unit is not None:
            _one_of("unit", self.unit, UNITS)
        for name, low, high in (
            ("dpi", 36, 1200),
            ("batch", 1, 4096),
            ("threads", 1, 1024),
            ("max_output_tokens", 1, 1 << 20),
            ("min_pixels", 1, 1 << 30),
            ("max_pixels", 1, 1 << 30),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UsageError(f"{name} must lie between {low} and {high}, not {value}")

    @property
    def profile_overrides(self) -> dict[str, object]:
        """The facts about the checkpoint that the caller stated, by name."""
        names = ("prompt", "unit", "max_output_tokens", "min_pixels", "max_pixels", "dialect")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


OPTION_NAMES = tuple(field.name for field in fields(ParseOptions))


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
