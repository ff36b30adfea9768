"""What a document checkpoint expects: its prompt, the size of its images, what it writes, when it stops.

A profile comes from `ocria.json` beside the weights; else from the built-in list, by name; else it is the
generic one of the architecture. What is not publicly known is `UNKNOWN`, never guessed: reading such a
setting raises an error that names the command-line option which supplies it.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ocria.errors import ConfigError, UsageError
from ocria.model.strict import from_dict, read_json

PROFILE_FILE = "ocria.json"
UNITS = ("page", "line")
DEFAULT_MAX_OUTPUT_TOKENS = 16384
"""A dense page of HTML tables fits; a runaway answer ends."""
DIALECTS = ("markdown", "html", "json", "text")


class Unknown(Enum):
    """The type of `UNKNOWN`, the one value of a setting that nobody has published."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN

OPTIONS = {
    "unit": "--unit",
    "system_prompt": "--prompt",
    "prompt": "--prompt",
    "dialect": "--dialect",
    "max_output_tokens": "--max-output-tokens",
    "min_pixels": "--min-pixels",
    "max_pixels": "--max-pixels",
}
"""Setting -> the option of the command line that supplies it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How to ask a checkpoint for the text of an image.

    Sampling is the publisher's recommendation; None means greedy. Pixel limits are areas; None leaves the
    checkpoint's `preprocessor_config.json` as it is.
    """

    name: str
    unit: str | Unknown
    """What one request holds: a `page`, or a text `line`."""
    prompt: str | Unknown
    """The user's words after the image; empty where the model wants none."""
    dialect: str | Unknown
    """What the model writes: `markdown`, `html`, `json` or `text`."""
    max_output_tokens: int | Unknown
    system_prompt: str | Unknown | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    max_output_per_image_token: float | None = None
    """Line models loop past the end of a line: a second limit that follows from the width of the image."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer, beside the tokens of the checkpoint."""
    temperature: float | None = None
    top_p: float | None = None
    box_scale: int | None = None
    """The boxes in its answers run from 0 to this on both axes; None where it is not published: then a block takes the
    whole page."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Switches of the chat template, such as `enable_thinking`."""

    def __post_init__(self):
        for name, allowed in (("unit", UNITS), ("dialect", DIALECTS)):
            value = getattr(self, name)
            if value is not UNKNOWN and value not in allowed:
                raise ConfigError(f"{name} {value!r} is none of {', '.join(allowed)}")
        for name in ("prompt", "system_prompt"):
            value = getattr(self, name)
            if value is not UNKNOWN and value is not None and not isinstance(value, str):
                raise ConfigError(f"{name} must be text, got {value!r}")
        for name in ("max_output_tokens", "min_pixels", "max_pixels", "box_scale"):
            value = getattr(self, name)
            if value is UNKNOWN or (value is None and name != "max_output_tokens"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a positive whole number, got {value!r}")
        object.__setattr__(self, "stop", tuple(self.stop))

    @classmethod
    def from_file(cls, path: Path | str) -> "Profile":
        """From an `ocria.json`, which must be complete. Raises ConfigError with the key at fault."""
        path = Path(path)
        try:
            return from_dict(cls, read_json(path), path=path)
        except ConfigError as error:
            raise ConfigError(error.message, path=path, cure=error.cure) from error

    def save(self, path: Path | str) -> None:
        """Write `ocria.json`. Raises UsageError when a setting is unknown."""
        data = {item.name: self.require(item.name) for item in fields(self)}
        empty = (None, (), {})
        data = {key: value for key, value in data.items() if value not in empty}
        Path(path).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def unknown(self) -> list[str]:
        """The settings that are not publicly known."""
        return [item.name for item in fields(self) if getattr(self, item.name) is UNKNOWN]

    def require(self, name: str) -> Any:
        """The value of a setting. Raises UsageError naming the option that supplies it when it is unknown."""
        value = getattr(self, name)
        if value is UNKNOWN:
            message = f"the {name.replace('_', ' ')} of {self.name} is not publicly known"
            raise UsageError(message, cure=f"Give it with {OPTIONS[name]}.")
        return value

    def override(self, **options: Any) -> "Profile":
        """A new profile with the options of a command line; None leaves a setting as it is.

        `prompt` is the instruction of the model: it becomes the system prompt where that is what is unknown.
        """
        given = {name: value for name, value in options.items() if value is not None}
        unknown = given.keys() - {item.name for item in fields(self)}
        if unknown:
            raise TypeError(f"a profile has no setting {sorted(unknown)}")
        if "prompt" in given and "system_prompt" not in given and self.system_prompt is UNKNOWN:
            given["system_prompt"] = given.pop("prompt")
        return replace(self, **given)

    def messages(self, images: int = 1) -> list[dict[str, Any]]:
        """The chat that asks for the text of the images. Raises UsageError while a prompt is unknown."""
        system, prompt = self.require("system_prompt"), self.require("prompt")
        content: list[dict[str, str]] = [{"type": "image"} for _ in range(images)]
        if prompt:
            content.append({"type": "text", "text": prompt})
        chat: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if system:
            chat.insert(0, {"role": "system", "content": system})
        return chat

    def output_limit(self, image_tokens: int) -> int:
        """Most output tokens for an image of that many tokens; our own ceiling where none is published."""
        limit = DEFAULT_MAX_OUTPUT_TOKENS if self.max_output_tokens is UNKNOWN else self.max_output_tokens
        if self.max_output_per_image_token is not None:
            limit = min(limit, max(1, math.ceil(image_tokens * self.max_output_per_image_token)))
        return limit


GENERIC = Profile(
    name="a plain Qwen3.5 model",
    unit="page",
    prompt=UNKNOWN,
    dialect="markdown",
    max_output_tokens=UNKNOWN,
    # A general model would think aloud before it transcribes.
    template_kwargs={"enable_thinking": False},
)
"""For checkpoints that are neither described by a file nor known by name."""

# The fine-tunes keep the default of their own chat templates: no template_kwargs.
_BUILT_IN: dict[str, Profile] = {
    "ocria-1": Profile(
        name="OCRia-1",
        unit="page",
        # The published tag bundles a system prompt; its text has not been published on its own.
        system_prompt=UNKNOWN,
        prompt="",
        dialect="markdown",  # tables and chart data inside it are HTML
        max_output_tokens=UNKNOWN,
    ),
    "lightonocr-3": Profile(
        name="LightOnOCR-3",
        unit="page",
        prompt="",  # "grounding" asks for blocks with boxes instead
        dialect="markdown",
        max_output_tokens=UNKNOWN,
        temperature=0.2,
        top_p=0.9,
        box_scale=1000,
    ),
    "ovisocr2": Profile(
        name="OvisOCR2",
        unit="page",
        prompt=UNKNOWN,  # one sentence, on the model's card
        dialect="markdown",
        max_output_tokens=16384,
        min_pixels=448**2,
        max_pixels=2880**2,
    ),
    "infinity-parser2-flash": Profile(
        name="Infinity-Parser2-Flash",
        unit="page",
        prompt=UNKNOWN,  # doc2json or doc2md: infinity_parser2/prompts.py of its publisher
        dialect=UNKNOWN,  # follows from the prompt
        max_output_tokens=UNKNOWN,
        min_pixels=2048,
        max_pixels=16777216,
        box_scale=1000,  # infinity_parser2/utils/utils.py
    ),
    "chandra-ocr-2": Profile(
        name="chandra-ocr-2",
        unit="page",
        prompt=UNKNOWN,  # chandra/prompts.py of its publisher
        dialect="html",  # div blocks with data-bbox and data-label
        box_scale=1000,
        max_output_tokens=UNKNOWN,
    ),
}


def built_in_profiles() -> list[Profile]:
    """The profiles that are known by name."""
    return list(_BUILT_IN.values())


def find_profile(folder: Path | str, name: str | None = None) -> Profile:
    """The profile of a checkpoint folder. `name`: its hub name, where it has one.

    Raises ConfigError when the folder's own `ocria.json` is faulty.
    """
    folder = Path(folder)
    if (folder / PROFILE_FILE).is_file():
        return Profile.from_file(folder / PROFILE_FILE)
    # A hub cache keeps files under models--OWNER--NAME/snapshots/REVISION.
    folders = (folder.name, folder.parent.parent.name)
    for candidate in [name] if name else [part.rpartition("--")[2] for part in folders]:
        plain = re.sub(r"[\s_-]+", "-", candidate.rpartition("/")[2].lower())
        for key, profile in _BUILT_IN.items():
            # Not followed by a number: another version of the model may expect something else.
            if re.match(rf"{re.escape(key)}(?![.]?\d)", plain):
                return profile
    return GENERIC
