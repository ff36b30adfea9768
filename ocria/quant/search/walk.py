"""Measuring: every group alone, then recipes along the way that their losses tell."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ocria.quant.recipe import BF16, Format, Recipe
from ocria.quant.search.bound import Bound
from ocria.quant.search.divergence import NONE, Divergence
from ocria.quant.search.frontier import Option, Stage
from ocria.quant.search.groups import Group, layer_groups
from ocria.quant.search.kept import Kept
from ocria.quant.search.report import Point, Sensitivity, recipe_of
from ocria.quant.search.scene import Scene
from ocria.quant.tensors import GROUP

STAGES = 8
"""Recipes on the way from nothing to everything that are measured as a whole, before the place where the bound is
passed is looked for."""

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and of how much."""


class Walk:
    """Measures what is not known yet."""

    def __init__(self, scene: Scene, settings: Recipe, bound: Bound, kept: Kept, tell: OnProgress):
        self.scene = scene
        self.groups = layer_groups(scene.shapes)
        self._settings, self._bound, self._kept, self._tell = settings, bound, kept, tell
        self._plain = scene.nbytes({})
        self._shapes = scene.shapes

    def sensitivities(self, formats: Sequence[Format]) -> list[Sensitivity]:
        """Every group in every format that suits it. Scaling is left out here: it concerns several groups at once."""
        alone = replace(self._settings, scaling="none")
        pairs = [(group, format) for group in self.groups for format in formats if self._suits(group, format)]
        found = []
        for done, (group, format) in enumerate(pairs):
            self._tell("groups", done, len(pairs))
            plan = dict.fromkeys(group.modules, format)
            loss = self._loss(plan, alone)
            found.append(Sensitivity(group, format, loss, self._plain - self.scene.nbytes(plan)))
        self._tell("groups", len(pairs), len(pairs))
        return found

    def options(self, sensitivities: list[Sensitivity]) -> tuple[list[Option], dict[Group, int]]:
        """For `stages`. A group's bytes are the most that any format saves of it, less what this one does: only
        differences count."""
        most = dict.fromkeys(self.groups, 0)
        for one in sensitivities:
            most[one.group] = max(most[one.group], one.saved)
        options = [Option(s.group, s.format, s.loss.kl, most[s.group] - s.saved) for s in sensitivities if s.saved > 0]
        return options, most

    def along(self, way: list[Stage]) -> list[Point]:
        """Stages evenly over the bytes, then those between the last that is within the bound and the first beyond."""
        points: dict[int, Point] = {}

        def measure(index: int) -> bool:
            if index not in points:
                self._tell("recipes", len(points), len(wanted))
                points[index] = self._point(way[index], index, len(way) - 1)
            return self._bound.holds(points[index].loss)

        wanted = _evenly([stage.nbytes for stage in way], STAGES)
        beyond = [index for index in wanted if not measure(index)]
        within = [index for index in wanted if index not in beyond]
        low = max(within)
        high = min((index for index in beyond if index > low), default=low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if measure(middle) else (low, middle)
        self._tell("recipes", len(points), len(points))
        return [points[index] for index in sorted(points)]

    def others(self, recipes: Sequence[Recipe]) -> list[Point]:
        """Whole recipes with settings of their own."""
        found = []
        for recipe in recipes:
            plan = recipe.plan(self._shapes)
            if plan:
                self._tell(f"recipe {recipe.name}", 0, 1)
                found.append(Point(recipe, self.scene.nbytes(plan), self._loss(plan, recipe)))
        return found

    def layers(self, recipe: Recipe) -> dict[str, str]:
        """Of each group the format that the recipe gives it."""
        plan = recipe.plan(self._shapes) if recipe.rules else {}
        return {str(group): plan.get(group.modules[0], BF16).name for group in self.groups}

    def _point(self, stage: Stage, index: int, last: int) -> Point:
        plan = {name: format for group, format in stage.formats.items() for name in group.modules if format != BF16}
        described = f"found by a search, step {index} of {last}"
        recipe = recipe_of(f"search-{index}" if plan else "bf16", described, stage.formats, self._settings)
        assert recipe.plan(self._shapes) == plan if plan else not recipe.rules, "the rules say what was measured"
        loss = self._loss(plan, self._settings)
        return Point(recipe, self.scene.nbytes(plan), loss, stage.predicted)

    def _suits(self, group: Group, format: Format) -> bool:
        return format.kind != "nvfp4" or all(self._shapes[name][1] % GROUP == 0 for name in group.modules)

    def _loss(self, plan: Mapping[str, Format], settings: Recipe) -> Divergence:
        if not plan:
            return NONE
        used = replace(settings, name="", description="", rules=(), kv="bf16", gptq=False)
        key = hashlib.sha256(f"{used.to_toml()}{sorted((n, f.name) for n, f in plan.items())}".encode()).hexdigest()
        if key not in self._kept:
            self._kept[key] = self.scene.loss(plan, settings)
        return self._kept[key]


def _evenly(sizes: list[int], count: int) -> list[int]:
    """Numbers of the first and the last of these falling sizes, and of those nearest to even steps between."""
    first, last = sizes[0], sizes[-1]
    marks = [first + (last - first) * i / max(1, count - 1) for i in range(count)]
    return sorted({min(range(len(sizes)), key=lambda i: abs(sizes[i] - mark)) for mark in marks})
