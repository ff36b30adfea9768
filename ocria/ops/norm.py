"""RMS norms of the Qwen3.5 decoder. Source: transformers `modeling_qwen3_5.py`."""

import torch
import torch.nn.functional as F


def rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS norm over the last axis: `x / rms(x) * scale`, computed in fp32, cast to x's dtype.

    x `[..., D]`; scale fp32 `[D]`, in this architecture 1 + the checkpoint's weight.
    """
    return F.rms_norm(x.float(), x.shape[-1:], scale, eps).to(x.dtype)


def gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / rms(x) * weight * silu(gate)` over the last axis (plain weight, norm before gate).

    x and gate `[..., D]`, weight `[D]` fp32. The normalised value passes through x's dtype before the weight, as
    in the checkpoint's training code; the rest is fp32.
    """
    y = weight * F.rms_norm(x.float(), x.shape[-1:], None, eps).to(x.dtype)
    return (y * F.silu(gate.float())).to(x.dtype)
