"""Linear layers: torch's own, and on CPUs the one of oneDNN.

torch computes fp32 products with MKL, which takes a slow path on processors of other makers (2.3 times slower than
oneDNN on a Zen 5 core, with the same error), and whose sums depend on the number of rows. oneDNN's do not, so a
request gets the same numbers alone and in a batch. Its kernels also apply the activation on the way out.
"""

import torch
import torch.nn.functional as F
from torch import nn

_ONEDNN = {"none": ("none", ""), "silu": ("swish", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh")}
_TORCH = {"none": lambda x: x, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"):
    """`activation(x @ weight.T + bias)`; x `[..., K]`, weight `[N, K]`, bias `[N]`, one dtype -> `[..., N]`.

    activation: `none`, `silu`, `gelu` (exact) or `gelu_tanh`. Differentiable.
    """
    if _use_onednn(x, weight):
        name, algorithm = _ONEDNN[activation]
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], algorithm)
    return _TORCH[activation](F.linear(x, weight, bias))


def _use_onednn(x: torch.Tensor, weight: torch.Tensor) -> bool:
    if not _HAS_ONEDNN or torch.is_grad_enabled() or weight.device.type != "cpu" or x.dtype != weight.dtype:
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    # A single row is bound by reading the weights, which MKL does with less ado.
    return x.dtype == torch.bfloat16 or (x.dtype == torch.float32 and x.numel() > x.shape[-1])


class Linear(nn.Linear):
    """`nn.Linear` with an optional activation, through `linear`."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, activation: str = "none"):
        super().__init__(inputs, outputs, bias=bias)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self.weight, self.bias, self.activation)


class Projections:
    """Several linear layers of one input as a single product.

    The layers' weights become views of one matrix, so nothing is stored twice and their names stay what they are.
    Call it like a layer; the outputs come side by side, to be split by `sizes`.
    """

    def __init__(self, layers: list[nn.Linear]):
        self.weight = torch.cat([layer.weight.data for layer in layers])
        self.sizes = [layer.out_features for layer in layers]
        for layer, rows in zip(layers, self.weight.split(self.sizes), strict=True):
            layer.weight.data = rows

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return linear(x, self.weight).split(self.sizes, dim=-1)
