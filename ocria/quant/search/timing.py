"""How long decode steps take, checkpoint beside checkpoint."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from ocria.model.checkpoint import load_model
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.run import quantize
from ocria.quant.recipe import Recipe
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions


def step_seconds(
    model: str | Path,
    recipes: Sequence[Recipe],
    samples: Sequence[Sample],
    calibration: Sequence[Sample],
    *,
    device: str | torch.device,
    dtype: torch.dtype | None = None,
    batch: int = 8,
    repeats: int = 5,
) -> list[float]:
    """The median time of a decode step with checkpoints quantised by these recipes, which are written to a temporary
    folder. All read the samples in turn, `repeats` times after one that is not counted, and every second time in the
    other order. All of them are in memory at once."""
    engines = []
    with tempfile.TemporaryDirectory(prefix="ocria-") as folder:
        for number, recipe in enumerate(recipes):
            out = Path(folder) / str(number)
            quantize(model, recipe, calibration, out, drafters={}, device=device)
            loaded = load_model(out, dtype=dtype, device=device)
            engines.append(Engine(loaded, EngineOptions(max_batch=batch)))
    requests = [sample.request for sample in samples]
    times: list[list[float]] = [[] for _ in engines]
    order = list(zip(engines, times, strict=True))
    for repeat in range(repeats + 1):
        for engine, found in order if repeat % 2 else order[::-1]:
            steps, seconds = engine.worker.steps, engine.metrics.decode_seconds
            engine.run(requests)
            steps, seconds = engine.worker.steps - steps, engine.metrics.decode_seconds - seconds
            if repeat:
                found.append(seconds / steps)
    return [median(found) for found in times]
