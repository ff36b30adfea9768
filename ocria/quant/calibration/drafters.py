"""Drafters of a quantised model. What they lose costs drafts, never an answer, so that plain rounding does."""

import shutil
from pathlib import Path

from ocria.model.weights import list_tensors, read_tensors
from ocria.quant.calibration.module import quantise_module
from ocria.quant.calibration.report import ModuleReport
from ocria.quant.calibration.source import file_bytes
from ocria.quant.check import measure
from ocria.quant.formats import OnDemand, write_checkpoint
from ocria.quant.formats.contents import plain_linears
from ocria.quant.recipe import Format, Recipe
from ocria.quant.tensors import Weight
from ocria.runtime.drafting import FOLDER as FOLDER

_LIKE = "model.language_model."
"""A layer of a drafter gets the format of the layer of the model that has this before its name."""
_WITHOUT_INPUT = {"fp8-tensor": "fp8-channel", "nvfp4-w4a4": "nvfp4"}
"""What stands for formats with a number for the input, which only passes of the drafter could tell."""


def drafter_folders(model: Path) -> list[Path]:
    """Where a model keeps drafters."""
    return sorted(path.parent for path in model.glob("drafter*/config.json"))


def quantize_drafter(folder: Path, out: Path, recipe: Recipe) -> list[ModuleReport]:
    """Write the drafter in `folder`, quantised, into the new folder `out`; without layers that the recipe means, a
    copy. Convolutions, selectors and what joins the features stay as they are."""
    infos = list_tensors(folder)
    shapes = {name: infos[f"{name}.weight"].shape for name in plain_linears(infos)}
    formats = {name: _format(recipe, name) for name in shapes if ".self_attn." in name or ".mlp." in name}
    plan = {name: format for name, format in formats.items() if format.kind != "bf16"}
    reports: list[ModuleReport] = []

    def make(name: str) -> Weight:
        info = infos[f"{name}.weight"]
        plain = next(read_tensors([info]))[1].clone()
        made = quantise_module(plain, plan[name], name=name, search=recipe.block_scales, dialect=recipe.form)
        error = measure(plain, made).error
        reports.append(ModuleReport(name, plan[name].name, made.shape, file_bytes(info), made.nbytes, error))
        return made

    if plan:
        write_checkpoint(out, folder, OnDemand(list(plan), make), recipe.form)
    else:
        shutil.copytree(folder, out)
    return reports


def _format(recipe: Recipe, name: str) -> Format:
    format = recipe.format_of(_LIKE + name)
    return Format(_WITHOUT_INPUT.get(format.name, format.name))
