"""RMS norms of the Qwen3.5 decoder, over the last axis. Source: transformers `modeling_qwen3_5.py`.

The kernels have no gradient: where one is asked for, the torch forms run.
"""

import torch
import torch.nn.functional as F

from ocria.ops.register import register


def rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps) * scale`, computed in fp32, rounded once to x's dtype.

    x `[..., D]`; scale fp32 `[D]`, in this architecture 1 + the checkpoint's weight.
    """
    if _wants_gradient(x, scale):
        return _rms_norm(x, scale, eps)
    return rms_norm_op(x, scale, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of `residual + x`, and that sum: both `[..., D]` in residual's dtype.

    x and residual `[..., D]` of one dtype; scale fp32 `[D]`. The sum is rounded to its dtype before the norm.
    """
    if _wants_gradient(x, residual, scale):
        return _add_rms_norm(x, residual, scale, eps)
    return add_rms_norm_op(x, residual, scale, eps)


def gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / rms(x) * weight * silu(gate)` (plain weight, norm before gate).

    x and gate `[..., D]`, weight `[D]` fp32. The normalised value passes through x's dtype before the weight, as
    in the checkpoint's training code; the rest is fp32, rounded once to x's dtype.
    """
    if _wants_gradient(x, gate, weight):
        return _gated_rms_norm(x, gate, weight, eps)
    return gated_rms_norm_op(x, gate, weight, eps)


def rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    """`sqrt(mean(x^2) + eps)` of fp32 x `[..., D]` over the last axis -> `[..., 1]`.

    As the hypotenuse of |x| / sqrt(D) and sqrt(eps): the fewest passes over x on the CPU, where `F.rms_norm` is
    eight kernels.
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.hypot(norm * x.shape[-1] ** -0.5, torch.scalar_tensor(eps**0.5))


def rms_norm_reference(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    """What `rms_norm` computes, step by step."""
    x32 = x.float()
    mean = x32.pow(2).sum(dim=-1, keepdim=True) / x.shape[-1]
    return (x32 / (mean + eps).sqrt() * scale).to(x.dtype)


def gated_rms_norm_reference(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """What `gated_rms_norm` computes, step by step."""
    normalised = rms_norm_reference(x, torch.ones_like(weight), eps)
    gate32 = gate.float()
    return (normalised.float() * weight * gate32 / (1 + torch.exp(-gate32))).to(x.dtype)


def _wants_gradient(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    x32 = x.float()
    return (x32 / rms(x32, eps) * scale).to(x.dtype)


def _add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    added = residual + x
    return _rms_norm(added, scale, eps), added


def _gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x32 = x.float()
    normalised = (x32 / rms(x32, eps)).to(x.dtype)
    return (normalised * weight * F.silu(gate.float())).to(x.dtype)


def _launch_rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    from ocria.ops.kernels.norm import launch_rms_norm

    return launch_rms_norm(x, scale, eps)


def _launch_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    from ocria.ops.kernels.norm import launch_add_rms_norm

    return launch_add_rms_norm(x, residual, scale, eps)


def _launch_gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    from ocria.ops.kernels.norm import launch_gated_rms_norm

    return launch_gated_rms_norm(x, gate, weight, eps)


def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


rms_norm_op = register("rms_norm", torch_form=_rms_norm, launch=_launch_rms_norm, fake=lambda x, scale, eps: _like(x))
add_rms_norm_op = register(
    "add_rms_norm",
    torch_form=_add_rms_norm,
    launch=_launch_add_rms_norm,
    fake=lambda x, residual, scale, eps: (_like(residual), _like(residual)),
)
gated_rms_norm_op = register(
    "gated_rms_norm",
    torch_form=_gated_rms_norm,
    launch=_launch_gated_rms_norm,
    fake=lambda x, gate, weight, eps: _like(x),
)
