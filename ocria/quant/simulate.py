"""A plain network that computes, for a while, what a quantised one would: to measure before anything is written."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from ocria.errors import UsageError
from ocria.model.network import Qwen35
from ocria.ops.quant_rows import Target, dequantise, quantise
from ocria.quant.tensors import Fp8Weight, Nvfp4Weight, Weight

HEAD = "lm_head"


@contextmanager
def simulated(network: Qwen35, weights: Mapping[str, Weight], activations: bool = True) -> Iterator[None]:
    """Inside, the linear layers of these names compute with the values of these weights, in the network's dtype, and
    with activations also their inputs are rounded where the weight says so. Afterwards everything is as it was, to the
    bit. `lm_head` is the head, also where it is tied: the embeddings stay what they are.

    Peak memory: the decoded weights beside the plain ones.
    Raises UsageError for a network that is prepared already, and for a weight that does not fit.
    """
    if network._prepared:
        raise UsageError("a network that is prepared computes with copies of its weights", cure="Load it anew.")
    with ExitStack() as undo:
        for name, weight in weights.items():
            if name == HEAD:
                _replace_head(network, weight, activations, undo)
            else:
                _replace(_layer(network, name, weight), weight, activations, undo)
        yield


def round_input(weight: Weight) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What happens to the input `[..., K]` of a layer with this weight before the product: it comes back in its own
    dtype with the values that its codes stand for. None where the input stays as it is."""
    target = _target(weight)
    if target is None:
        return None
    return lambda x: dequantise(quantise(x, target)).to(x.dtype).view(x.shape)


def _target(weight: Weight) -> Target | None:
    if isinstance(weight, Fp8Weight):
        if weight.activations == "none":
            return None
        return Target(weight.activations, None if weight.input_scale is None else weight.input_scale.reshape(1))
    if weight.input_multiplier is None:
        return None
    return Target("nvfp4", weight.input_multiplier.reshape(1), weight.pre_quant_scale)


def _layer(network: Qwen35, name: str, weight: Weight) -> nn.Linear:
    try:
        layer = network.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        raise UsageError(f"the network has no linear layer {name}")
    _check_shape(name, layer.weight, weight)
    return layer


def _check_shape(name: str, plain: torch.Tensor, weight: Weight) -> None:
    if tuple(plain.shape) != weight.shape:
        raise UsageError(f"{name} is {list(plain.shape)}, and the quantised weight is {list(weight.shape)}")


def _values(weight: Weight, like: torch.Tensor, rounded: bool) -> torch.Tensor:
    """The values of the weight; of one whose input is rounded, those that meet the rounded input."""
    split = rounded and isinstance(weight, Nvfp4Weight)
    return (weight.decode() if split else weight.dense()).to(device=like.device, dtype=like.dtype)


def _replace(layer: nn.Linear, weight: Weight, activations: bool, undo: ExitStack) -> None:
    rounding = round_input(weight) if activations else None
    plain = layer.weight
    undo.callback(setattr, layer, "weight", plain)
    layer.weight = nn.Parameter(_values(weight, plain, rounding is not None), requires_grad=False)
    if rounding is not None:
        hook = layer.register_forward_pre_hook(lambda _, inputs: (rounding(inputs[0]), *inputs[1:]))
        undo.callback(hook.remove)


def _replace_head(network: Qwen35, weight: Weight, activations: bool, undo: ExitStack) -> None:
    """The method `logits` is hidden by one with the other weight: a tied head has no layer of its own."""
    plain = network._head()
    _check_shape(HEAD, plain, weight)
    rounding = round_input(weight) if activations else None
    values = _values(weight, plain, rounding is not None)
    network.logits = lambda hidden: F.linear(hidden if rounding is None else rounding(hidden), values)
    undo.callback(delattr, network, "logits")
