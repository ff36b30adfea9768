"""Layers that hold quantised weights, made ready for inference: what runs in place of each.

Where kernels run, codes and scales stay as they are, and projections of one input become one product for each kind of
weight and each way to quantise the input; parts that cannot be joined run separately. On the CPU weights are decoded
once (`ocria.ops.quant_cpu`), and all projections of one input are one product, whatever their kinds, unless their
inputs are to be quantised in different ways.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from ocria.ops.linear import Linear, Projections, linear
from ocria.ops.quant_cpu import Decoded, DecodedProduct, decoded_fp8, decoded_nvfp4
from ocria.ops.quant_linear import Fed, Feed, Fp8Product, Nvfp4Product, Product
from ocria.ops.quant_rows import Target
from ocria.ops.quant_swizzle import swizzle_scales
from ocria.ops.register import uses_kernels
from ocria.quant.fuse import merge_fp8, merge_nvfp4
from ocria.quant.tensors import BLOCK, Fp8Weight, Weight


class WeightBytes(NamedTuple):
    """What weights take: `plain`: those that are not quantised; the others `decoded` to the working dtype, and as
    `codes` and scales."""

    plain: int = 0
    decoded: int = 0
    codes: int = 0

    def __add__(self, other: "WeightBytes") -> "WeightBytes":  # type: ignore[override]
        return WeightBytes(*(a + b for a, b in zip(self, other, strict=True)))


def weight_bytes(network: nn.Module, dtype: torch.dtype) -> WeightBytes:
    """Of a network that is not prepared."""
    held = [layer.held for layer in network.modules() if isinstance(layer, Linear) and layer.held is not None]
    return WeightBytes(
        sum(parameter.nbytes for parameter in network.parameters()),
        sum(weight.shape[0] * weight.shape[1] for weight in held) * dtype.itemsize,
        sum(weight.nbytes for weight in held),
    )


def quantises_inputs(network: nn.Module) -> bool:
    """Whether a network that is not prepared holds weights whose inputs are to be quantised."""
    layers = (layer for layer in network.modules() if isinstance(layer, Linear))
    return any(layer.held is not None and _input_of(layer.held) is not None for layer in layers)


def moved(weight: Weight, device: str | torch.device) -> Weight:
    """The weight on a device."""
    names = type(weight).__dataclass_fields__
    tensors = {name: part for name in names if isinstance(part := getattr(weight, name), torch.Tensor)}
    return replace(weight, **{name: tensor.to(device) for name, tensor in tensors.items()})


@dataclass(frozen=True, slots=True)
class _Part:
    """A product of some of the projections of an input: which of them, how many outputs each has, and whether it takes
    what the maker of the input quantised."""

    product: Callable
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    fed: bool


class QuantisedProjections:
    """Several linear layers of one input, without biases, some of them with quantised weights."""

    def __init__(self, parts: Sequence[_Part], feed: Feed | None):
        self._parts, self.feed = tuple(parts), feed
        self._count = sum(len(part.places) for part in parts)

    def __call__(self, x: torch.Tensor | Fed) -> tuple[torch.Tensor, ...]:
        """x `[..., K]`, or what was made of it by `feed` -> the outputs of the layers, in their order."""
        if len(self._parts) == 1:
            (part,) = self._parts
            return part.product(x).split(part.sizes, dim=-1)
        outputs: list[torch.Tensor | None] = [None] * self._count
        for part in self._parts:
            y = part.product(x.kept if isinstance(x, Fed) and not part.fed else x)
            for place, output in zip(part.places, y.split(part.sizes, dim=-1), strict=True):
                outputs[place] = output
        return tuple(outputs)

    def whole(self, x: torch.Tensor | Fed) -> torch.Tensor:
        """All outputs side by side."""
        if len(self._parts) == 1:
            return self._parts[0].product(x)
        return torch.cat(self(x), dim=-1)


class Preparation:
    """How the layers of one network are made ready.

    pack: whether plain weights are packed for the CPU; inputs: whether inputs are quantised where the weights say so;
    like: a tensor of the network, which tells the device; dtype: of the network. products: those made of decoded
    weights.
    """

    def __init__(self, pack: bool, inputs: bool, like: torch.Tensor, dtype: torch.dtype):
        self.pack, self.inputs, self.dtype = pack, inputs, dtype
        self.kernels = uses_kernels(like)
        self.products: list[DecodedProduct] = []
        self._swizzled = like.is_cuda and torch.cuda.get_device_capability(like.device)[0] == 10

    def alone(self, layer: Linear) -> None:
        """A layer that shares its input with no other."""
        if layer.held is not None:
            layer.prepare(self._product([layer.held], layer.bias, layer.activation))
        elif self.pack:
            layer.prepare()

    def keep_plain(self) -> None:
        """Keep decoded weights in plain order too, where plain ones are kept packed beside."""
        if self.pack:
            for product in self.products:
                product.keep_plain()

    def join(self, layers: list[Linear]) -> Projections | QuantisedProjections:
        """Layers of one input."""
        if not any(layer.held is not None for layer in layers):
            return Projections(layers, self.pack)
        joined = self.copied(layers)
        for layer in layers:
            layer.held = None
        return joined

    def copied(self, layers: list[Linear]) -> QuantisedProjections:
        """The same, and the layers stay as they are."""
        weights = [layer.weight.detach() if layer.held is None else layer.held for layer in layers]
        groups = self._groups(weights)
        inputs = [self._quantised(weights[group[0]]) for group in groups]
        fed = next((taken for taken in inputs if taken is not None), None)
        parts = []
        for group, taken in zip(groups, inputs, strict=True):
            chosen = [weights[place] for place in group]
            if self.kernels and isinstance(chosen[0], torch.Tensor):
                product = partial(linear, weight=torch.cat(chosen))
            else:
                product = self._product(chosen)
            sizes = tuple(weight.shape[0] for weight in chosen)
            parts.append(_Part(product, tuple(group), sizes, taken == fed))
        if fed is None:
            return QuantisedProjections(parts, None)
        target = self._target(weights[groups[inputs.index(fed)][0]])
        return QuantisedProjections(parts, Feed(target, keep=not all(part.fed for part in parts)))

    def _groups(self, weights: Sequence[Weight | torch.Tensor]) -> list[list[int]]:
        """Which of the weights are one product, the widest first."""
        groups: dict[tuple, list[int]] = {}
        for index, weight in enumerate(weights):
            groups.setdefault(self._key(weight, index), []).append(index)
        return sorted(groups.values(), key=lambda group: -sum(weights[index].shape[0] for index in group))

    def _key(self, weight: Weight | torch.Tensor, index: int) -> tuple:
        """Weights with the same one can be joined."""
        taken = self._quantised(weight)
        if not self.kernels:
            return (taken,)
        if isinstance(weight, torch.Tensor):
            return ("plain",)
        if isinstance(weight, Fp8Weight):
            ragged = index if weight.granularity == "block" and weight.shape[0] % BLOCK else None
            return ("fp8", weight.granularity == "block", ragged, taken)
        return ("nvfp4", _bytes(weight.pre_quant_scale), taken)

    def _quantised(self, weight: Weight | torch.Tensor) -> tuple | None:
        """How the input of a weight is quantised here, to be compared."""
        if not self.inputs or isinstance(weight, torch.Tensor):
            return None
        return _input_of(weight)

    def _target(self, weight: Weight | torch.Tensor) -> Target | None:
        if self._quantised(weight) is None:
            return None
        if isinstance(weight, Fp8Weight):
            factor = None if weight.input_scale is None else weight.input_scale.reshape(1)
            return Target(weight.activations, factor)
        kind = "nvfp4_swizzled" if self._swizzled else "nvfp4"
        return Target(kind, weight.input_multiplier.reshape(1), weight.pre_quant_scale)

    def _product(
        self, weights: Sequence[Weight | torch.Tensor], bias: torch.Tensor | None = None, activation: str = "none"
    ) -> Product:
        """That of weights of one group below each other."""
        target = self._target(weights[0])
        if not self.kernels:
            parts = [self._decoded(weight, target is not None) for weight in weights]
            self.products.append(DecodedProduct(parts, target, bias, activation))
            return self.products[-1]
        if isinstance(weights[0], Fp8Weight):
            merged = merge_fp8([replace(weight, activations="none", input_scale=None) for weight in weights])
            return Fp8Product(merged.codes, _flat(merged.scale), target, bias, activation)
        rows = merge_nvfp4([replace(weight, input_multiplier=None) for weight in weights])
        multiplier = rows.multipliers if rows.shared else rows.row_multipliers()
        swizzled = self._swizzled and target is not None
        scales = swizzle_scales(rows.scales) if swizzled else rows.scales
        pre = rows.pre_quant_scale if target is None else None
        return Nvfp4Product(rows.codes, scales, multiplier, target, pre, bias, activation)

    def _decoded(self, weight: Weight | torch.Tensor, quantised: bool) -> Decoded:
        if isinstance(weight, torch.Tensor):
            return Decoded(weight)
        if isinstance(weight, Fp8Weight):
            return decoded_fp8(weight.codes, _flat(weight.scale), self.dtype)
        pre = None if quantised else weight.pre_quant_scale
        return decoded_nvfp4(weight.codes, weight.scales, weight.multiplier, self.dtype, pre)


def _input_of(weight: Weight) -> tuple | None:
    """How a weight wants its input, to be compared; None: as it is."""
    if isinstance(weight, Fp8Weight):
        scale = None if weight.input_scale is None else weight.input_scale.item()
        return None if weight.activations == "none" else (weight.activations, scale)
    if weight.input_multiplier is None:
        return None
    return "nvfp4", weight.input_multiplier.item(), _bytes(weight.pre_quant_scale)


def _bytes(vector: torch.Tensor | None) -> bytes | None:
    return None if vector is None else vector.cpu().numpy().tobytes()


def _flat(scale: torch.Tensor) -> torch.Tensor:
    """A scale of the whole tensor with a dimension."""
    return scale.reshape(1) if scale.ndim == 0 else scale
