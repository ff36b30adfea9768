"""Recipes: which module is stored in which format, and how its numbers are chosen.

A recipe is a TOML file, one of those in `recipes/` or the user's own:

    description = "FP8 everywhere but in the head"
    [[rules]]
    modules = "*.mlp.*"
    format = "fp8-channel"

Patterns are globs over the names of modules in the checkpoint; `*` crosses dots, and of several rules that match the
last one holds. What matches no rule stays as it is.
"""

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ocria.errors import ConfigError
from ocria.model.strict import reject_unknown
from ocria.quant.tensors import BLOCK, GROUP

FOLDER = Path(__file__).parent / "recipes"
SCALINGS = ("none", "awq")
BLOCK_SCALES = ("none", "four_over_six", "clip", "sweep")
CACHES = ("bf16", "fp8")
FORMS = ("compressed-tensors", "modelopt")
_WORDS = {"scaling": SCALINGS, "block_scales": BLOCK_SCALES, "kv": CACHES, "form": FORMS}
_ORDER = ("bf16", "fp8", "nvfp4-mlp+fp8", "nvfp4-mlp+fp8+head", "nvfp4")

_FORMATS = {
    "bf16": ("bf16", "", "none"),
    "fp8-tensor": ("fp8", "tensor", "static"),
    "fp8-channel": ("fp8", "channel", "token"),
    "fp8-block": ("fp8", "block", "block"),
    "nvfp4": ("nvfp4", "", "none"),
    "nvfp4-w4a4": ("nvfp4", "", "local"),
}
"""By name: kind, granularity of FP8 scales, and what becomes of the input."""

_HIGH = (
    (r"(.*\.)?visual\..*", "the vision encoder stays as it is, as its errors would be in every image token"),
    (r".*\.conv1d", "a short convolution has few weights, so that nothing would be gained"),
    (r".*\.in_proj_[ab]", "the gates of a recurrence have few rows, and their errors add up in its state"),
    (r".*norm\d?", "norms are vectors"),
    (r"(.*\.)?(embed_tokens|pos_embed)", "embeddings are looked up, not multiplied, so that no time would be gained"),
    (r"mtp\..*", "the block for several tokens is not loaded; drafters are quantised apart from the model"),
)
"""What stays high, by names of modules, and why."""
_LAYER = "model.language_model.layers.0."
_HIGH_NAMES = (
    "model.visual.blocks.0.attn.qkv", "model.visual.merger.linear_fc1", "model.language_model.embed_tokens",
    "model.language_model.norm", "mtp.fc", *(_LAYER + leaf for leaf in (
        "linear_attn.conv1d", "linear_attn.in_proj_a", "linear_attn.in_proj_b", "linear_attn.norm", "input_layernorm",
        "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm",
    )),
)  # fmt: skip
"""Names that stand for all of them where a pattern matches nothing else."""


def _one_of(what: str, word: Any, allowed: tuple[str, ...]) -> None:
    if word in allowed:
        return
    near = difflib.get_close_matches(str(word), allowed, n=1)
    cure = f"Did you mean {near[0]!r}?" if near else None
    raise ConfigError(f"{what} must be one of {', '.join(allowed)}, not {word!r}", cure=cure)


@dataclass(frozen=True, slots=True)
class Format:
    """How a weight is stored, one of: `bf16`; `fp8-tensor` with inputs in FP8 by a scale that calibration finds,
    `fp8-channel` by one for each token, `fp8-block` by one for each 128 values of a token; `nvfp4` with inputs as they
    are (W4A16); `nvfp4-w4a4` with inputs in NVFP4. Raises ConfigError for another name."""

    name: str

    def __post_init__(self) -> None:
        _one_of("format", self.name, tuple(_FORMATS))

    @property
    def kind(self) -> str:
        """`bf16`, `fp8` or `nvfp4`."""
        return _FORMATS[self.name][0]

    @property
    def granularity(self) -> str:
        """Of FP8 scales: `tensor`, `channel` or `block`; else empty."""
        return _FORMATS[self.name][1]

    @property
    def activations(self) -> str:
        """As `ocria.quant.formats.scheme.Scheme` has it: `none`, `static`, `token`, `block`, `local`."""
        return _FORMATS[self.name][2]

    @property
    def scaled_input(self) -> bool:
        """Whether the file holds a number for the input, which only calibration can tell."""
        return self.activations in ("static", "local")

    @property
    def bits_per_weight(self) -> float:
        """In a large matrix, scales included."""
        return {"bf16": 16.0, "fp8": 8.0, "nvfp4": 4 + 8 / GROUP}[self.kind]

    def nbytes(self, shape: tuple[int, int]) -> int:
        """Bytes of a weight `[N, K]` in the checkpoint, its scales included."""
        rows, columns = shape
        if self.kind == "bf16":
            return 2 * rows * columns
        extra = 4 * self.scaled_input
        if self.kind == "nvfp4":
            return rows * (columns // 2 + columns // GROUP) + 4 + extra
        scales = {"tensor": 1, "channel": rows, "block": math.ceil(rows / BLOCK) * math.ceil(columns / BLOCK)}
        return rows * columns + 4 * scales[self.granularity] + extra

    def __str__(self) -> str:
        return self.name


BF16 = Format("bf16")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to do with a checkpoint.

    rules: patterns and formats, the last one that matches holds. scaling: `awq` moves magnitude from weights that meet
    large inputs into what is before them. block_scales: how blocks of NVFP4 find theirs (`quantize_nvfp4`). gptq:
    whether the rounding of a column makes up for that of the ones before it. kv: `fp8` stores scales of cached keys and
    values. form: what the files look like.
    Raises ConfigError for other words.
    """

    name: str
    description: str = ""
    rules: tuple[tuple[str, Format], ...] = ()
    scaling: str = "none"
    block_scales: str = "none"
    gptq: bool = False
    kv: str = "bf16"
    form: str = "compressed-tensors"

    def __post_init__(self) -> None:
        for field, allowed in _WORDS.items():
            _one_of(field, getattr(self, field), allowed)
        if not isinstance(self.gptq, bool):
            raise ConfigError(f"gptq must be true or false, not {self.gptq!r}")
        blocks = [pattern for pattern, format in self.rules if format.granularity == "block"]
        if blocks and self.form == "modelopt":
            cure = "Write the form compressed-tensors, or use fp8-channel."
            raise ConfigError(f"modelopt has no fp8-block, which {blocks[0]!r} gets", cure=cure)

    @property
    def needs_pages(self) -> bool:
        """Whether numbers of the recipe come from what the model computes on pages."""
        scaled = any(format.scaled_input for _, format in self.rules)
        return scaled or self.gptq or self.kv == "fp8" or self.scaling != "none"

    def format_of(self, module: str) -> Format:
        """What the rules say of a module, whether it must stay high or not."""
        return next((format for pattern, format in reversed(self.rules) if fnmatchcase(module, pattern)), BF16)

    def plan(self, modules: Mapping[str, tuple[int, int]]) -> dict[str, Format]:
        """The formats of the modules that are to be quantised.

        modules: the linear layers of a checkpoint with their shapes `[N, K]`; `lm_head` as well where it is tied, as it
        becomes a weight of its own. Those that must stay high match no rule.
        Raises ConfigError for a rule that matches nothing, or only what must stay high, and for a format that does not
        suit a shape.
        """
        free = [name for name in modules if why_high(name) is None]
        for pattern, format in self.rules:
            if not any(fnmatchcase(name, pattern) for name in free):
                self._refuse_rule(pattern, format, modules, free)
        chosen = {}
        for name in free:
            format = self.format_of(name)
            if format.kind == "nvfp4" and modules[name][1] % GROUP:
                raise ConfigError(
                    f"recipe {self.name}: {name} has {modules[name][1]} columns, and {format} needs a multiple of "
                    f"{GROUP}",
                    cure="Add a rule behind the others that gives it another format, such as fp8-channel.",
                )
            if format != BF16:
                chosen[name] = format
        return chosen

    def to_toml(self) -> str:
        """The recipe as a file, but for its name, which is that of the file."""
        lines = [f"description = {_quoted(self.description)}"]
        lines += [f"{field} = {_quoted(getattr(self, field))}" for field in _WORDS]
        lines.append(f"gptq = {str(self.gptq).lower()}")
        for pattern, format in self.rules:
            lines += ["", "[[rules]]", f"modules = {_quoted(pattern)}", f"format = {_quoted(format.name)}"]
        return "\n".join(lines) + "\n"

    def _refuse_rule(self, pattern: str, format: Format, modules: Iterable[str], free: list[str]) -> None:
        high = next((name for name in (*modules, *_HIGH_NAMES) if why_high(name) and fnmatchcase(name, pattern)), None)
        if high is not None:
            if format != BF16:
                raise ConfigError(f"recipe {self.name}: {pattern!r} cannot be {format}: {why_high(high)}")
            return
        near = difflib.get_close_matches(pattern, [pattern_of(name) for name in free], n=1)
        cure = f"Did you mean {near[0]!r}?" if near else f"A module of this checkpoint is {(free or ['none'])[0]!r}."
        raise ConfigError(f"recipe {self.name}: {pattern!r} matches no module", cure=cure)


def why_high(module: str) -> str | None:
    """Why a module cannot be quantised; None where it can."""
    return next((why for pattern, why in _HIGH if re.fullmatch(pattern, module)), None)


def pattern_of(module: str) -> str:
    """The glob that matches this module in every layer: `*.mlp.up_proj`."""
    return re.sub(r".*\.\d+\.", "*.", module)


def recipe_names() -> list[str]:
    """Of the recipes that come with ocria, those of the most bytes first."""
    return list(_ORDER)


def load_recipe(recipe: str | os.PathLike[str]) -> Recipe:
    """A recipe by its name, or from a TOML file. Raises ConfigError for what is not there, is no recipe, or has keys
    or words that are unknown."""
    text = os.fspath(recipe)
    built_in = FOLDER / f"{text}.toml"
    path = built_in if text in recipe_names() else Path(text).expanduser()
    if not path.is_file():
        near = difflib.get_close_matches(text, recipe_names(), n=1)
        cure = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(recipe_names())}, or give a TOML file."
        raise ConfigError(f"no recipe {text!r}", cure=cure)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"not readable TOML: {error}", path=path) from error
    try:
        return _recipe(path.stem, data)
    except ConfigError as error:
        raise ConfigError(error.message, path=path, cure=error.cure) from error


def _recipe(name: str, data: Mapping[str, Any]) -> Recipe:
    reject_unknown(data, [field.name for field in fields(Recipe) if field.name != "name"])
    rules = data.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError("rules are not tables", cure="Begin each with a line [[rules]].")
    if not isinstance(data.get("description", ""), str):
        raise ConfigError("description is no text")
    found = []
    for number, rule in enumerate(rules, 1):
        reject_unknown(rule, ("modules", "format"), where=f"rule {number}")
        for key in ("modules", "format"):
            if not isinstance(rule.get(key), str):
                raise ConfigError(f"rule {number} has no {key}", cure="A rule has modules, a pattern, and a format.")
        found.append((rule["modules"], Format(rule["format"])))
    return Recipe(name, **{**data, "rules": tuple(found)})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a string of JSON is one of TOML
