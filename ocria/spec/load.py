"""Loading a drafter: every tensor of its folder is used exactly once, or the load fails and says why."""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ocria.errors import CheckpointError, EngineError
from ocria.model.config import TextConfig
from ocria.model.quantized import moved
from ocria.model.weights import DTYPES, TensorInfo, list_tensors, names, read_tensors
from ocria.quant.formats import read_quantized
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash import DFlash
from ocria.spec.dflash2 import DFlash2


@dataclass(frozen=True, slots=True)
class LoadedDrafter:
    """A drafter's network, and what it was made from."""

    network: DFlash
    config: DrafterConfig
    tensors: int
    parameters: int


def build(config: DrafterConfig) -> DFlash:
    """The network of a configuration, DFlash or DFlash2."""
    return DFlash2(config) if config.version == 2 else DFlash(config)


def load_drafter(
    folder: str | os.PathLike[str],
    target: TextConfig | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> LoadedDrafter:
    """A drafter from its folder, in inference mode; linear layers keep quantised weights as they are.

    Peak memory is one copy of the weights and one tensor.

    `target`: the text decoder it must fit. `dtype`: fp32 or bf16; None keeps the one of the file, except that fp16
    becomes fp32, since activations of drafters leave the range of fp16. Raises ConfigError, CheckpointError with the
    names of the tensors at fault, and EngineError for another dtype.
    """
    folder = Path(folder)
    config = DrafterConfig.from_file(folder / "config.json")
    if target is not None:
        config.check_target(target)
    with torch.device("meta"):
        network = build(config)
    stored = read_quantized(folder, list_tensors(folder))
    wanted, found = dict(network.named_parameters()), stored.infos()
    _check(folder, wanted, found)
    dtype = _dtype(dtype, found["norm.weight"])
    for info, tensor in read_tensors(sorted(stored.plain.values(), key=lambda info: info.file)):
        module, _, leaf = info.name.rpartition(".")
        own = nn.Parameter(tensor.to(device=device, dtype=dtype, copy=True), requires_grad=False)
        setattr(network.get_submodule(module), leaf, own)
    for module in stored:
        network.get_submodule(module).hold(moved(stored[module], device))
    parameters = sum(math.prod(info.shape) for info in found.values())
    return LoadedDrafter(network.eval(), config, len(found), parameters)


def _dtype(asked: torch.dtype | None, first: TensorInfo) -> torch.dtype:
    if asked is None:
        return torch.float32 if first.dtype == "F16" else DTYPES[first.dtype]
    if asked not in (torch.float32, torch.bfloat16):
        raise EngineError(f"a drafter cannot run in {asked}", cure="Use float32 or bfloat16.")
    return asked


def _check(folder: Path, wanted: dict[str, nn.Parameter], found: dict[str, TensorInfo]) -> None:
    """Raise CheckpointError with the names of all tensors that are missing, unexpected or not as they must be."""
    common = sorted(wanted.keys() & found.keys())
    faults = {
        "missing": sorted(wanted.keys() - found.keys()),
        "unexpected": sorted(found.keys() - wanted.keys()),
        "of another shape": [
            f"{name} {list(found[name].shape)} instead of {list(wanted[name].shape)}"
            for name in common
            if found[name].shape != tuple(wanted[name].shape)
        ],
    }
    said = "; ".join(f"{fault}: {names(items)}" for fault, items in faults.items() if items)
    if not said:
        return
    at_fault = {found[name].file for name in found if name not in wanted}
    at_fault |= {found[name].file for name in common if found[name].shape != tuple(wanted[name].shape)}
    files = at_fault or {info.file for info in found.values()}
    path = files.pop() if len(files) == 1 else folder
    raise CheckpointError(f"tensors {said}", path=path, cure="Does config.json belong to these weights?")
