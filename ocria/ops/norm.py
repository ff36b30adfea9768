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
    if torch.is_grad_enabled() and (x.requires_grad or scale.requires_grad):
        return _rms_norm(x, scale, eps)
    return rms_norm_op(x, scale, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of `residual + x`, and that sum: both `[..., D]` in residual's dtype.

    x and residual `[..., D]` of one dtype; scale fp32 `[D]`. The sum is rounded to its dtype before the norm.
    """
    if torch.is_grad_enabled() and (x.requires_grad or residual.requires_grad or scale.requires_grad):
        return _add_rms_norm(x, residual, scale, eps)
    return add_rms_norm_op(x, residual, scale, eps)


def gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / rms(x) * weight * silu(gate)` (plain weight, norm before gate).

    x and gate `[..., D]`, weight `[D]` fp32. The normalised value passes through x's dtype before the weight, as
    in the checkpoint's training code; the rest is fp32, rounded once to x's dtype.
    """
    if torch.is_grad_enabled() and (x.requires_grad or gate.requires_grad or weight.requires_grad):
        return _gated_rms_norm(x, gate, weight, eps)
    return gated_rms_norm_op(x, gate, weight, eps)


def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps)` of fp32 x `[..., D]` over the last axis.

    The root is the hypotenuse of |x| / sqrt(D) and sqrt(eps): four kernels on the CPU, where `F.rms_norm` is eight.
    """
    share, floor = _constants(x.shape[-1], eps, x.device)
    return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True) * share, floor)


def rms_norm_reference(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    """What `rms_norm` computes, step by step."""
    x32 = x.float()
    mean = x32.pow(2).sum(dim=-1, keepdim=True) / x.shape[-1]
    return (x32 / (mean + eps).sqrt() * scale).to(x.dtype)


def gated_rms_norm_reference(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """What `gated_rms_norm` computes, step by step."""
    y = rms_norm_reference(x, torch.ones_like(weight), eps)
    gate32 = gate.float()
    return (y.float() * weight * gate32 / (1 + torch.exp(-gate32))).to(x.dtype)


_kept: dict[tuple[int, float, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}


def _constants(size: int, eps: float, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """`_made`, kept: to make one, or to pass a Python number instead, takes as long on the CPU as a kernel."""
    if torch.compiler.is_compiling():
        return _made(size, eps, device)
    key = (size, eps, device)
    if key not in _kept:
        with torch.inference_mode(False):  # autograd saves them
            _kept[key] = _made(*key)
    return _kept[key]


def _made(size: int, eps: float, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """1 / sqrt(size) and sqrt(eps) as fp32 of no dimension."""
    return torch.scalar_tensor(size**-0.5, device=device), torch.scalar_tensor(eps**0.5, device=device)


def _rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    if x.dtype == torch.float32:
        return normalised(x, eps) * scale
    return (normalised(x.float(), eps) * scale).to(x.dtype)


def _add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    added = residual + x
    return _rms_norm(added, scale, eps), added


def _gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    y = normalised(x.float(), eps).to(x.dtype) * weight
    return (y * F.silu(gate.float())).to(x.dtype)


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
