"""What a recipe will do to a checkpoint, before anything is done."""

from dataclasses import dataclass
from typing import Any

from ocria.quant.calibration.report import table, told
from ocria.quant.calibration.source import PlainCheckpoint
from ocria.quant.recipe import BF16, Recipe, pattern_of


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Modules of one kind that get one format."""

    pattern: str
    format: str
    modules: int
    bytes_before: int
    bytes_after: int


def plan_groups(checkpoint: PlainCheckpoint, recipe: Recipe) -> list[PlannedGroup]:
    """Every linear layer by its kind, and in a last group all other tensors. A tied head that stays as it is has no
    bytes. Raises ConfigError where the recipe does not suit the checkpoint."""
    modules = checkpoint.modules
    plan = recipe.plan(modules)
    found: dict[tuple[str, str], list[str]] = {}
    for name in modules:
        kind = "*.visual.*" if ".visual." in name else "mtp.*" if name.startswith("mtp.") else pattern_of(name)
        found.setdefault((kind, plan.get(name, BF16).name), []).append(name)
    groups = []
    for (pattern, format), names in found.items():
        before = sum(checkpoint.nbytes(name) for name in names)
        after = sum(plan[name].nbytes(modules[name]) if name in plan else checkpoint.nbytes(name) for name in names)
        kept = format if format != BF16.name else "as it is"
        groups.append(PlannedGroup(pattern, kept, len(names), before, after))
    rest = checkpoint.total_bytes - sum(group.bytes_before for group in groups)
    others = sum(name.removesuffix(".weight") not in modules for name in checkpoint.infos)
    return [*groups, PlannedGroup("embeddings, norms, convolutions and the like", "as it is", others, rest, rest)]


def as_text(groups: list[PlannedGroup]) -> str:
    """A row for each group, and the sum."""
    rows = [("modules", "", "format", "bytes before", "after")]
    rows += [
        (group.pattern, f"{group.modules}x", group.format, told(group.bytes_before), told(group.bytes_after))
        for group in groups
    ]
    before, after = (sum(getattr(group, key) for group in groups) for key in ("bytes_before", "bytes_after"))
    rows.append(("whole model", "", "", told(before), told(after)))
    return "\n".join(table(rows, left={0, 2}))


def as_dict(recipe: Recipe, groups: list[PlannedGroup]) -> dict[str, Any]:
    """As JSON has it."""
    listed = [
        {
            "modules": group.pattern,
            "count": group.modules,
            "format": group.format,
            "bytes_before": group.bytes_before,
            "bytes_after": group.bytes_after,
        }
        for group in groups
    ]
    return {"recipe": recipe.name, "needs_pages": recipe.needs_pages, "groups": listed}
