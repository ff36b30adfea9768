"""What one decode step reads of the weights, tensor by tensor: by a plan, or by the files of a checkpoint.

The step reads everything of the text decoder once, and the head, however many requests it serves; of the embeddings it
looks up a few rows, which are not counted. Where the head is tied and not quantised, it is the embedding, and is.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ocria.model.checkpoint import EMBEDDING, HEAD, KEPT_FP32, network_name
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.weights import list_tensors
from ocria.quant.calibration.source import file_bytes
from ocria.quant.formats.contents import find_contents
from ocria.quant.recipe import Format
from ocria.quant.tensors import BLOCK, GROUP, Fp8Weight, Nvfp4Weight, Weight

ROLES = ("plain", "codes", "scales", "multiplier", "input", "pre_quant_scale")
"""Of a tensor: a plain one, or what part it plays in a quantised weight. input: the number for the layer's input."""

_DECODER = "model.language_model."
_FILE_ROLES = {"weight": "codes", "scale": "scales"}


class Part(NamedTuple):
    """A tensor. module: the layer that it belongs to, `lm_head` for the head. kind: `plain`, `fp8` or `nvfp4`."""

    module: str
    kind: str
    role: str
    nbytes: int


def parts_of_plan(network: Qwen35, plan: Mapping[str, Format], dtype: torch.dtype = torch.bfloat16) -> list[Part]:
    """The tensors that a step of a network, also one on the meta device, reads when the modules of the plan are
    quantised; dtype: of the others. Tensors are made on the meta device to be counted."""
    plan = {name: format for name, format in plan.items() if format.kind != "bf16"}
    parts, head = [], HEAD.removesuffix(".weight")
    for name, parameter in network.named_parameters():
        if name == EMBEDDING and network.config.tie_word_embeddings:
            name = HEAD
        module = name.rpartition(".")[0]
        if module != head and (not name.startswith(_DECODER) or name == EMBEDDING):
            continue
        if module in plan and name.endswith(".weight"):
            parts += _parts(module, empty_weight(plan[module], tuple(parameter.shape)))
        else:
            size = torch.float32.itemsize if KEPT_FP32.fullmatch(name) else dtype.itemsize
            parts.append(Part(module, "plain", "plain", parameter.numel() * size))
    return parts


def parts_of_checkpoint(folder: Path) -> list[Part]:
    """The tensors in the files of a checkpoint that a step reads. Raises CheckpointError and ConfigError for a folder
    that holds none."""
    config = ModelConfig.from_file(folder / "config.json")
    contents = find_contents(list_tensors(folder))
    tied = config.tie_word_embeddings and HEAD not in contents.plain
    parts = []
    for name, info in contents.plain.items():
        name = network_name(name, config)
        if tied and name == EMBEDDING:
            name = HEAD
        if name == HEAD or (name.startswith(_DECODER) and name != EMBEDDING):
            parts.append(Part(name.rpartition(".")[0], "plain", "plain", file_bytes(info)))
    for module, layout in contents.modules.items():
        module = network_name(f"{module}.weight", config).removesuffix(".weight")
        if f"{module}.weight" == HEAD or module.startswith(_DECODER):
            parts += [
                Part(module, layout.kind, _FILE_ROLES.get(role, role), file_bytes(info))
                for role, info in layout.parts.items()
            ]
    return parts


def empty_weight(format: Format, shape: tuple[int, int]) -> Weight:
    """A weight `[N, K]` in this format on the meta device: shapes without values. Raises CheckpointError where the
    format does not suit the shape."""
    rows, columns = shape

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    number = empty() if format.scaled_input else None
    if format.kind == "nvfp4":
        codes = empty(rows, columns // 2, dtype=torch.uint8)
        scales = empty(rows, columns // GROUP, dtype=torch.float8_e4m3fn)
        return Nvfp4Weight(codes, scales, empty(), number)
    scale = {"tensor": (), "channel": (rows,), "block": (-(-rows // BLOCK), -(-columns // BLOCK))}[format.granularity]
    codes = empty(rows, columns, dtype=torch.float8_e4m3fn)
    return Fp8Weight(codes, empty(*scale), format.granularity, format.activations, number)


def step_bytes(parts: Iterable[Part]) -> int:
    """Bytes of all of them."""
    return sum(part.nbytes for part in parts)


def linear_shapes(network: nn.Module) -> dict[str, tuple[int, int]]:
    """The linear layers of a network with their shapes `[N, K]`, as `Recipe.plan` wants them: the head is among them,
    tied or not."""
    shapes = {name: tuple(m.weight.shape) for name, m in network.named_modules() if isinstance(m, nn.Linear)}
    return shapes | {HEAD.removesuffix(".weight"): tuple(network._head().shape)}


def _parts(module: str, weight: Weight) -> list[Part]:
    if isinstance(weight, Fp8Weight):
        found = {"codes": weight.codes, "scales": weight.scale, "input": weight.input_scale}
        kind = "fp8"
    else:
        found = {"codes": weight.codes, "scales": weight.scales, "multiplier": weight.multiplier}
        found |= {"input": weight.input_multiplier, "pre_quant_scale": weight.pre_quant_scale}
        kind = "nvfp4"
    return [Part(module, kind, role, tensor.nbytes) for role, tensor in found.items() if tensor is not None]
