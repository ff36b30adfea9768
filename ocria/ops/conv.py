"""The short causal convolution in front of a Gated DeltaNet, with its window of earlier rows."""

import torch
import torch.nn.functional as F


def causal_conv_silu(
    x: torch.Tensor, weight: torch.Tensor, history: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Depthwise causal convolution, then SiLU.

    x `[B, T, C]`; weight `[C, K]`; history `[B, K - 1, C]` are the rows before x (zeros when None).
    Returns the output `[B, T, C]` and the extended rows `[B, K - 1 + T, C]`, from which the caller keeps the
    window after the last valid row.
    """
    batch, _, channels = x.shape
    width = weight.shape[1]
    if history is None:
        history = x.new_zeros(batch, width - 1, channels)
    rows = torch.cat([history.to(x.dtype), x], dim=1)
    if x.shape[1] == 1:
        y = (rows * weight.t()).sum(1, keepdim=True)
    else:
        y = sum(rows[:, i : i + x.shape[1]] * weight[:, i] for i in range(width))
    return F.silu(y), rows
