"""Moving magnitude from a producer to its consumers, in place, so that the network computes what it did.

Plain tensors are rounded to the dtype of the file. A zero-centred norm with the weight w, which multiplies by 1 + w,
gets w' = (1 + w) / s - 1; near -1, bf16 is coarse against 1 + w' (1.6 % at s = 8). So the factor that the consumers get
is not s, but the one that the rounded norm stands for: what is lost is then the rounding of plain layers alone. That is
little, so that factors need not be powers of two: on ocria-nano a KL divergence of 8e-9 where the gates a and b are
plain, and of 3e-7 where up_proj and v_proj are, against 3.5e-4 by NVFP4 in the layers behind those.
"""

from collections.abc import Container

import torch

from ocria.errors import UsageError
from ocria.model.attention import RMSNorm
from ocria.model.deltanet import GatedNorm
from ocria.model.network import Qwen35
from ocria.quant.calibration.mappings import Group


def attainable(network: Qwen35, group: Group, s: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The factors nearest to s that a producer stored in `dtype` can stand for; both fp32 `[outer * inner]`, positive.
    Where a norm passes nothing on, the factor is 1."""
    producer = network.get_submodule(group.producer)
    if not isinstance(producer, RMSNorm):
        return s
    scale = producer.scale
    return torch.where(scale == 0, 1.0, scale / (1 + _norm_weight(scale, s, dtype)))


@torch.no_grad()
def fold(
    network: Qwen35, group: Group, s: torch.Tensor, quantised: Container[str], dtype: torch.dtype
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Divide what the producer gives by s fp32 `[outer * inner]`, and multiply the columns of the consumers.

    quantised: names of the layers that will be quantised, whose values are not rounded to `dtype`, the one of plain
    tensors in the file. Returns the factors that came about, and the plain tensors that changed, by name, in the dtype
    of the file; the weight of a gated norm is fp32.
    Raises UsageError for factors that are not positive numbers.
    """
    if s.shape != (group.shape[0] * group.shape[2],) or not (s.isfinite() & (s > 0)).all():
        raise UsageError(f"{list(s.shape)} factors for {group.producer} are not what it takes, all above 0")
    changed: dict[str, torch.Tensor] = {}

    def store(name: str, module: torch.nn.Module, value: torch.Tensor, stored: torch.dtype) -> None:
        if name not in quantised:
            changed[f"{name}.weight"] = value.to(stored)
            value = changed[f"{name}.weight"]
        module.weight.copy_(value)

    s = attainable(network, group, s, dtype)
    producer = network.get_submodule(group.producer)
    weight = producer.weight.float()
    if isinstance(producer, RMSNorm):
        store(group.producer, producer, _norm_weight(producer.scale, s, dtype), dtype)
    elif isinstance(producer, GatedNorm):
        store(group.producer, producer, weight / s, torch.float32)
    else:
        store(group.producer, producer, weight / s[:, None], dtype)
    for name in group.consumers:
        module = network.get_submodule(name)
        store(name, module, module.weight.float() * group.spread(s), dtype)
    return s, changed


def _norm_weight(scale: torch.Tensor, s: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The weight of a zero-centred norm that multiplies by scale / s, rounded to dtype, in fp32. What is not 0 does
    not become 0."""
    weight = (scale / s - 1).to(dtype)
    one = torch.ones_like(weight)
    least = torch.nextafter(-one, torch.copysign(torch.full_like(one, torch.inf), scale.to(dtype)))
    return torch.where((weight == -1) & (scale != 0), least, weight).float()
