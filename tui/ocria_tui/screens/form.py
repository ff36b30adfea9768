"""Options of `ocria.parse` as lines to fill in, checked by `ParseOptions` itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Select

from ocria.document.options import MODES, OPTION_NAMES, TABLE_FORMATS, ParseOptions
from ocria.errors import UsageError
from ocria_tui.screens.dialog import Name

_DEFAULTS = {option.name: option.default for option in fields(ParseOptions)}


@dataclass(frozen=True, slots=True)
class Field:
    """One line. What it sets is the option of its name; an empty line is the option's default."""

    name: str
    label: str
    hint: str
    choices: tuple[str, ...] = ()
    whole: bool = False
    """Whether the value is a whole number."""
    secret: bool = False
    """Whether nobody shall see what is typed."""


PAGES = Field("pages", "Pages", "all, or such as 1-3,8")
PASSWORD = Field("password", "Password", "of an encrypted PDF", secret=True)
READING = (
    Field("mode", "Mode", "", MODES),
    Field("dpi", "Resolution", "dpi of the scan, or 300", whole=True),
    Field("max_output_tokens", "Output tokens", "limit of a request; the model's own", whole=True),
    Field("table_format", "Tables", "", TABLE_FORMATS),
)
ENGINE = (
    Field("model", "Model", "ocria-nano, or a folder or name"),
    Field("draft", "Drafter", "auto, none, lookup, vision, own or a folder"),
    Field("device", "Device", "a GPU if there is one, else cpu"),
    Field("batch", "Batch", "requests at the same time; what suits", whole=True),
)


class Form(Vertical):
    """Lines for some options with the values that hold."""

    DEFAULT_CSS = "Form { height: auto; }"

    def __init__(self, lines: Sequence[Field], options: Mapping[str, Any]):
        super().__init__()
        self.lines, self.options = lines, options

    def compose(self) -> ComposeResult:
        for line in self.lines:
            value = self.options.get(line.name, _DEFAULTS[line.name])
            with Horizontal(classes="row"):
                yield Name(line.label)
                if line.choices:
                    choices = [(choice, choice) for choice in line.choices]
                    yield Select(choices, value=value, allow_blank=False, id=line.name, compact=True)
                else:
                    shown = "" if value is None else ",".join(map(str, value)) if _listed(value) else str(value)
                    yield Input(
                        shown, placeholder=line.hint, id=line.name, password=line.secret, compact=True
                    )

    def values(self) -> dict[str, Any]:
        """What the lines say, by option. Raises UsageError: a value that its option does not take."""
        said = {line.name: self._value(line) for line in self.lines}
        known = {name: value for name, value in self.options.items() if name in OPTION_NAMES}
        ParseOptions(**{**known, **said})
        return said

    def changed(self) -> dict[str, Any]:
        """Those of `values` that differ from what held."""
        return {name: v for name, v in self.values().items() if v != self.options.get(name, _DEFAULTS[name])}

    def _value(self, line: Field) -> Any:
        if line.choices:
            return self.query_one(f"#{line.name}", Select).value
        text = self.query_one(f"#{line.name}", Input).value.strip()
        if not text:
            return _DEFAULTS[line.name]
        if not line.whole:
            return text
        try:
            return int(text)
        except ValueError as error:
            raise UsageError(f"{line.name} must be a whole number, not {text!r}") from error


def _listed(value: object) -> bool:
    return isinstance(value, (list, tuple))
