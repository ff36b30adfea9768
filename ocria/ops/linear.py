"""Linear layers: torch's own, and for inference on CPUs the one of oneDNN over packed weights.

torch computes fp32 products with MKL, which takes a slow path on processors of other makers (2.3 times slower than
oneDNN on a Zen 5 core, with the same error), and whose sums depend on the number of rows. oneDNN's do not, so a
request gets the same numbers alone and in a batch. Its kernels also apply the activation on the way out.

Compiled code cannot look into a packed weight. There a product of several rows goes through an operation that finds
the packed weight by number, and one of a single row becomes a plain sum over the weight, which Inductor turns into a
loop that reads it once (half the time of oneDNN's kernel for so few rows).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from ocria.ops.quant_linear import Fed, Feed, Product

_ONEDNN = {"none": ("none", ""), "silu": ("swish", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh")}
_TORCH = {"none": lambda x: x, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
_PACKED_DTYPES = (torch.float32, torch.bfloat16)
_ROWS_HINT = 32  # the layout chosen for this many rows was within 3 % of the best for 1 to 1024


class Packed:
    """A weight `[N, K]` in the layout that oneDNN computes with. `number` names it in compiled code, for as long as
    its owner keeps it."""

    _all: ClassVar[WeakValueDictionary[int, Packed]] = WeakValueDictionary()
    _numbers: ClassVar[Iterator[int]] = count()

    def __init__(self, weight: torch.Tensor):
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS_HINT)
        self.outputs, self.nbytes = weight.shape[0], weight.numel() * weight.element_size()
        self.number = next(Packed._numbers)
        Packed._all[self.number] = self

    @classmethod
    def numbered(cls, number: int) -> torch.Tensor:
        return cls._all[number].weight

    def plain(self) -> torch.Tensor:
        """The weight `[N, K]` again, a copy, to the bit."""
        return self.weight.to_dense()


def pack(weight: torch.Tensor) -> Packed | None:
    """The packed form of `[N, K]`, a copy; None where oneDNN does not apply."""
    usable = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if not usable or weight.device.type != "cpu" or weight.dtype not in _PACKED_DTYPES:
        return None
    if weight.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return None
    return Packed(weight)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    packed: Packed | None = None,
) -> torch.Tensor:
    """`activation(x @ weight.T + bias)`; x `[..., K]`, weight `[N, K]`, bias `[N]`, one dtype -> `[..., N]`.

    activation: `none`, `silu`, `gelu` (exact) or `gelu_tanh`. `packed`: what `pack` made of the weight; then the
    result has no gradient, and the weight may be None, at the price of slower single rows in compiled code.
    """
    if packed is None:
        return activate(F.linear(x, weight, bias), activation)
    if torch.compiler.is_compiling():
        if bias is None and weight is not None and x.shape[:-1].numel() == 1:
            return activate((x.float() * weight.float()).sum(-1).to(x.dtype).view(*x.shape[:-1], -1), activation)
        return torch.ops.ocria.packed_linear(x, packed.number, packed.outputs, bias, activation)
    return _onednn(x, packed.weight, bias, activation)


def activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    """One of the activations of `linear`."""
    return _TORCH[activation](x)


def _packed_linear(x: torch.Tensor, number: int, outputs: int, bias: torch.Tensor | None, activation: str):
    return _onednn(x, Packed.numbered(number), bias, activation)


def _onednn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str) -> torch.Tensor:
    if activation == "gelu_tanh" and x.dtype == torch.float32:
        return _gelu_tanh_(torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""))
    name, algorithm = _ONEDNN[activation]
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], algorithm)


_SLOPE = torch.tensor(math.sqrt(8 / math.pi))


def _gelu_tanh_(x: torch.Tensor) -> torch.Tensor:
    """In place. With 1 + tanh(u) = 2 sigmoid(2 u) and 2 u = x s it is silu(x s) / s, s = sqrt(8 / pi) (1 + 0.044715
    x^2): torch's tanh takes four times as long as its sigmoid."""
    slope = torch.addcmul(_SLOPE, x, x, value=0.044715 * math.sqrt(8 / math.pi))
    return F.silu(x.mul_(slope), inplace=True).div_(slope)


_library = torch.library.Library("ocria", "FRAGMENT")
_library.define("packed_linear(Tensor x, int number, int outputs, Tensor? bias, str activation) -> Tensor")
_library.impl("packed_linear", _packed_linear, "CPU")
torch.library.register_fake(
    "ocria::packed_linear",
    lambda x, number, outputs, bias, activation: x.new_empty(*x.shape[:-1], outputs),
    lib=_library,
)


class Linear(nn.Linear):
    """`nn.Linear` with an optional activation. After `prepare` its weight must not change and has no gradient.

    Of a quantised checkpoint it holds the weight as it is stored: `held`, an `ocria.quant.tensors.Weight`, and
    `weight` is None. `prepare` then gets the product that takes its place (`ocria.model.quantized`); before, every call
    decodes it.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, activation: str = "none"):
        super().__init__(inputs, outputs, bias=bias)
        self.activation = activation
        self.held: Any = None
        self._packed: Packed | None = None
        self._product: Product | None = None

    def hold(self, weight: Any) -> None:
        """Have this quantised weight `[N, K]` from now on."""
        self.weight, self.held = None, weight

    def prepare(self, product: Product | None = None) -> None:
        """`product`: what computes the layer, bias and activation included, where the weight is quantised."""
        if product is None:
            self._packed = pack(self.weight)
        else:
            self._product, self.held = product, None

    @property
    def feed(self) -> Feed | None:
        """What should quantise the input where it is made; None: nothing."""
        return None if self._product is None else self._product.feed

    def forward(self, x: torch.Tensor | Fed) -> torch.Tensor:
        """x `[..., K]`, or what was made of it by `feed`."""
        if self._product is not None:
            return self._product(x)
        weight = self.weight if self.held is None else self.held.dense().to(x.dtype)
        return linear(x, weight, self.bias, self.activation, self._packed)


class Projections:
    """Several linear layers of one input, without biases, as a single product.

    The layers' weights become views of one matrix; their names stay what they are. Call it like a layer: the
    outputs come as views of one tensor.
    """

    feed: Feed | None = None
    """As of `Linear`; these weights are plain."""

    def __init__(self, layers: list[nn.Linear], packed: bool):
        self.weight = torch.cat([layer.weight.data for layer in layers])
        self.sizes = [layer.out_features for layer in layers]
        for layer, rows in zip(layers, self.weight.split(self.sizes), strict=True):
            layer.weight.data = rows
        self._packed = pack(self.weight) if packed else None

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.whole(x).split(self.sizes, dim=-1)

    def without_first(self) -> Projections:
        """All layers but the first, over the same weights; packed, they are packed once more."""
        rest = object.__new__(Projections)
        rest.weight, rest.sizes = self.weight[self.sizes[0] :], self.sizes[1:]
        rest._packed = None if self._packed is None else pack(rest.weight)
        return rest

    def whole(self, x: torch.Tensor) -> torch.Tensor:
        """All outputs side by side."""
        return linear(x, self.weight, packed=self._packed)
