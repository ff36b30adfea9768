"""What a search found: as data, as a page of Markdown, and as a recipe to quantise by."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ocria.quant.recipe import BF16, Format, Recipe
from ocria.quant.search.bound import Bound
from ocria.quant.search.divergence import Divergence
from ocria.quant.search.groups import Group

RECIPE = "recipe.toml"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One group in one format, all else as it was. saved: bytes of a step that this saves."""

    group: Group
    format: Format
    loss: Divergence
    saved: int


@dataclass(frozen=True, slots=True)
class Point:
    """A recipe that was measured as a whole. nbytes: of weights that a step reads. predicted: the sum of the KL
    divergences of its groups alone; None for a recipe that comes with ocria. seconds: of a decode step, None where that
    was not measured."""

    recipe: Recipe
    nbytes: int
    loss: Divergence
    predicted: float | None = None
    seconds: float | None = None


@dataclass(slots=True)
class SearchReport:
    """The result of `run_search`. method: how it was found, in lines of text. chosen: the recipe within the bound that
    is fastest."""

    model: str
    method: list[str]
    bound: Bound
    sensitivities: list[Sensitivity]
    points: list[Point]
    chosen: Point
    layers: dict[str, str] = field(default_factory=dict)
    """Of the chosen recipe, the format of each group."""

    @property
    def recipe(self) -> Recipe:
        return self.chosen.recipe

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "method": self.method,
            "bound": {"measure": self.bound.measure, "limit": self.bound.limit},
            "sensitivities": [
                {"group": str(one.group), "layer": one.group.layer, "part": one.group.part, "format": one.format.name,
                 "saved_bytes": one.saved, **one.loss.to_dict()}
                for one in self.sensitivities
            ],
            "points": [
                {"recipe": one.recipe.name, "bytes": one.nbytes, "predicted_kl": one.predicted,
                 "step_seconds": one.seconds, "within": self.bound.holds(one.loss), **one.loss.to_dict()}
                for one in self.points
            ],
            "chosen": self.chosen.recipe.name,
            "formats": self.layers,
        }  # fmt: skip

    def markdown(self) -> str:
        """A page with the choice, all recipes that were measured, and the groups."""
        timed = any(point.seconds is not None for point in self.points)
        lines = [f"# Formats for {self.model}", "", *self.method, ""]
        chosen = self.chosen
        plain = max(point.nbytes for point in self.points)
        lines += [
            f"Chosen: **{chosen.recipe.name}**, {chosen.nbytes / 1e6:.3f} MB a step "
            f"({chosen.nbytes / plain:.0%} of the plain weights), {_loss(chosen.loss)}. The bound: {self.bound}.",
            "",
            "## Recipes, measured as a whole",
            "",
            f"| recipe | MB a step | KL, nats a token | sum of its groups | tokens changed |{' ms a step |' * timed} |",
            f"|---|---|---|---|---|{'---|' * timed}---|",
        ]
        for point in sorted(self.points, key=lambda point: -point.nbytes):
            predicted = "" if point.predicted is None else f"{point.predicted:.2e}"
            seconds = "" if point.seconds is None else f"{1000 * point.seconds:.3f}"
            mark = "chosen" if point is chosen else "" if self.bound.holds(point.loss) else "beyond the bound"
            lines.append(
                f"| {point.recipe.name} | {point.nbytes / 1e6:.3f} | {point.loss.kl:.2e} | {predicted} | "
                f"{point.loss.changed:.3%} |{f' {seconds} |' * timed} {mark} |"
            )
        lines += ["", "## Groups, each alone", "", *self._group_table()]
        lines += ["", "## The chosen formats", "", "| group | format |", "|---|---|"]
        lines += [f"| {group} | {format} |" for group, format in self.layers.items()]
        return "\n".join(lines) + "\n"

    def _group_table(self) -> list[str]:
        formats = list(dict.fromkeys(one.format.name for one in self.sensitivities))
        cells: dict[str, dict[str, str]] = {}
        for one in self.sensitivities:
            cell = f"{one.loss.kl:.2e}, {one.loss.changed:.3%}, {one.saved / 1e6:.3f} MB"
            cells.setdefault(str(one.group), {})[one.format.name] = cell
        return [
            "KL in nats a token, tokens changed, bytes of a step saved.",
            "",
            f"| group | {' | '.join(formats)} |",
            "|---" * (len(formats) + 1) + "|",
            *(f"| {group} | {' | '.join(row.get(name, '') for name in formats)} |" for group, row in cells.items()),
        ]


def recipe_of(name: str, description: str, formats: Mapping[Group, Format], settings: Recipe) -> Recipe:
    """A recipe with these formats, and the settings of another: a rule for each leaf with its most common format, then
    one for every module that differs."""
    by_leaf: dict[str, list[tuple[str, Format]]] = {}
    for group, format in formats.items():
        for module in group.modules:
            by_leaf.setdefault(_leaf(module), []).append((module, format))
    rules, others = [], []
    for leaf, found in by_leaf.items():
        common = Counter(format for _, format in found).most_common(1)[0][0]
        if common != BF16:
            rules.append((leaf if leaf == "lm_head" else f"*.layers.*.{leaf}", common))
        others += [(_pattern(module), format) for module, format in found if format != common]
    return replace(settings, name=name, description=description, rules=(*rules, *others))


def _leaf(module: str) -> str:
    """`mlp.up_proj` of a layer's module; the head is one of its own."""
    return ".".join(module.split(".")[-2:]) if "." in module else module


def _pattern(module: str) -> str:
    """The module in files of any kind, which may lack `language_model`."""
    return f"*.layers.{'.'.join(module.split('.')[-3:])}"


def _loss(loss: Divergence) -> str:
    return f"KL {loss.kl:.2e} nats a token, {loss.changed:.3%} of {loss.tokens} tokens changed"
