"""Which tensors of a file make up which quantised weight, by their names, dtypes and shapes alone."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ocria.errors import CheckpointError
from ocria.model.weights import DTYPES, TensorInfo, names
from ocria.quant.tensors import BLOCK

COMPRESSED_TENSORS, MODELOPT, FINE_GRAINED = "compressed-tensors", "modelopt", "fp8"
"""The formats, by the quant_method of their configuration."""

EMBEDDING = re.compile(r"(.*\.)?(embed_tokens|pos_embed)")
_KV = re.compile(r"(?P<attention>.+?)(\.[kv]_proj)?\.(?P<which>[kv])_scale")
_PARTS = frozenset({
    "weight_packed", "weight_scale", "weight_scale_2", "weight_global_scale", "weight_scale_inv", "weight_zero_point",
    "weight_shape", "weight_g_idx", "input_scale", "input_global_scale", "input_zero_point", "activation_scale",
    "pre_quant_scale", "svdquant_lora_a", "svdquant_lora_b",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Style:
    """Names and dtypes of the parts of one kind of weight. formats: those that write it so."""

    kind: str
    formats: tuple[str, ...]
    weight: tuple[str, str]
    scale: str
    needed: tuple[str, ...] = ()
    input_scale: str = ""
    pre_quant_scale: str = ""


_STYLES = (
    _Style("nvfp4", (COMPRESSED_TENSORS,), ("weight_packed", "U8"), "weight_scale", ("weight_global_scale",),
           "input_global_scale"),
    _Style("nvfp4", (MODELOPT,), ("weight", "U8"), "weight_scale", ("weight_scale_2",), "input_scale",
           "pre_quant_scale"),
    _Style("fp8", (FINE_GRAINED,), ("weight", "F8_E4M3"), "weight_scale_inv", (), "activation_scale"),
    _Style("fp8", (COMPRESSED_TENSORS, MODELOPT), ("weight", "F8_E4M3"), "weight_scale", (), "input_scale"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The tensors of one quantised weight. parts: by the role they play: weight, scale, multiplier, input,
    pre_quant_scale. shape: of the weight that they stand for."""

    module: str
    kind: str
    formats: tuple[str, ...]
    granularity: str
    shape: tuple[int, int]
    parts: dict[str, TensorInfo]


@dataclass(frozen=True)
class Contents:
    """What a file holds. kv: of an attention module, the scales of its cached keys and values, by `k` and `v`."""

    modules: dict[str, Layout]
    plain: dict[str, TensorInfo]
    kv: dict[str, dict[str, TensorInfo]] = field(default_factory=dict)

    @cached_property
    def plain_linears(self) -> list[str]:
        """Names of the linear layers that are not quantised."""
        return plain_linears(self.plain)


def plain_linears(infos: Mapping[str, TensorInfo]) -> list[str]:
    """Names of the linear layers among plain tensors: matrices that are no embedding."""
    matrices = (name for name, info in infos.items() if name.endswith(".weight") and len(info.shape) == 2)
    return [module for name in matrices if not EMBEDDING.fullmatch(module := name.removesuffix(".weight"))]


def find_contents(infos: Mapping[str, TensorInfo]) -> Contents:
    """Sort the tensors of a file into quantised weights, scales of the KV cache, and plain tensors.

    Raises CheckpointError with the names of tensors that belong to no weight, and of weights that lack a part.
    """
    left = dict(infos)
    modules: dict[str, Layout] = {}
    for name, info in infos.items():
        module, _, leaf = name.rpartition(".")
        for style in _STYLES:
            if style.weight == (leaf, info.dtype) and f"{module}.{style.scale}" in infos:
                modules[module] = _layout(module, style, left)
                break
    kv: dict[str, dict[str, TensorInfo]] = {}
    for name in [name for name in left if _KV.fullmatch(name)]:
        match = _KV.fullmatch(name)
        kv.setdefault(match["attention"], {})[match["which"]] = left.pop(name)
    lost = [info.name for pair in kv.values() if len(pair) == 1 for info in pair.values()]
    lost += [name for name, info in left.items() if info.dtype not in DTYPES or name.rpartition(".")[2] in _PARTS]
    if lost:
        found = [f"{name} {infos[name].dtype}" for name in sorted(lost)]
        raise CheckpointError(
            f"tensors that belong to no weight that is quantised in a known way: {names(found)}",
            path=infos[lost[0]].file,
            cure="Known are FP8 and NVFP4 as compressed-tensors and ModelOpt write them, and fine-grained FP8.",
        )
    return Contents(modules, left, kv)


def _layout(module: str, style: _Style, left: dict[str, TensorInfo]) -> Layout:
    """The parts of one weight, taken out of `left`."""
    leaves = {
        "weight": style.weight[0],
        "scale": style.scale,
        **({"multiplier": style.needed[0]} if style.needed else {}),
        "input": style.input_scale,
        "pre_quant_scale": style.pre_quant_scale,
    }
    missing = [f"{module}.{leaf}" for leaf in style.needed if f"{module}.{leaf}" not in left]
    weight = left[f"{module}.{style.weight[0]}"]
    if missing:
        raise CheckpointError(f"{weight.name} is there, and {names(missing)} is missing", path=weight.file)
    parts = {role: left.pop(f"{module}.{leaf}") for role, leaf in leaves.items() if f"{module}.{leaf}" in left}
    if len(weight.shape) != 2:
        raise CheckpointError(f"{weight.name} {list(weight.shape)} is no matrix", path=weight.file)
    rows, columns = weight.shape
    shape = (rows, 2 * columns) if style.kind == "nvfp4" else (rows, columns)
    granularity = _granularity(weight, parts["scale"]) if style.kind == "fp8" else ""
    return Layout(module, style.kind, style.formats, granularity, shape, parts)


def _granularity(weight: TensorInfo, scale: TensorInfo) -> str:
    """What a scale of FP8 is for. A scale of two dimensions is never for the whole tensor."""
    rows, columns = weight.shape
    if math.prod(scale.shape) == 1 and len(scale.shape) < 2:
        return "tensor"
    if scale.shape in ((rows,), (rows, 1)):
        return "channel"
    blocks = (math.ceil(rows / BLOCK), math.ceil(columns / BLOCK))
    if scale.shape == blocks:
        return "block"
    raise CheckpointError(
        f"{scale.name} {list(scale.shape)} is no scale of {weight.name} {list(weight.shape)}",
        path=scale.file,
        cure=f"A scale is for the whole tensor, for a row, or for a block of {BLOCK} x {BLOCK}, here {list(blocks)}.",
    )
