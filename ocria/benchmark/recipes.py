"""What each recipe of `ocria quantize` would come to, counted from the headers of the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ocria.benchmark.facts import RecipeFact
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.quant.calibration.plan import plan_groups
from ocria.quant.calibration.source import PlainCheckpoint
from ocria.quant.recipe import load_recipe, recipe_names
from ocria.quant.step_bytes import linear_shapes, parts_of_plan, step_bytes
from ocria.runtime.memory import MemoryPlan

_AS_IT_IS = "bf16"


def count_recipes(
    model: str | Path, device: torch.device, dtype: torch.dtype, plan: MemoryPlan, limit: int
) -> list[RecipeFact]:
    """Every recipe for a plain checkpoint. plan: as the model runs now, or would; limit: bytes that it may take.

    Off the CPU weights are held as in the file, with what stays plain in `dtype`; on the CPU they are decoded, and so
    take what they take now. Raises CheckpointError for a model that is quantised already.
    """
    checkpoint = PlainCheckpoint.find(model)
    with torch.device("meta"):
        network = Qwen35(replace(ModelConfig.from_file(checkpoint.folder / "config.json"), vision=None))
    shapes, found = linear_shapes(network), []
    beside = plan.total - plan.weights - (plan.total - plan.weights) * (plan.slots - 1) // max(1, plan.slots)
    now = step_bytes(parts_of_plan(network, {}, dtype))
    for name in recipe_names():
        recipe = load_recipe(name)
        if name == _AS_IT_IS:
            continue
        file = sum(group.bytes_after for group in plan_groups(checkpoint, recipe))
        cpu = device.type == "cpu"
        held = plan.weights if cpu else file
        step = now if cpu else step_bytes(parts_of_plan(network, recipe.plan(shapes), dtype))
        found.append(RecipeFact(name, file, held, step, held + beside <= limit, recipe.needs_pages))
    return found
