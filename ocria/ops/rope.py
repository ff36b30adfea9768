"""Rotary embeddings: interleaved 3-D for the decoder, axial 2-D for the vision encoder. Always built in fp32."""

import torch


def text_rope(
    positions: torch.Tensor, rotary_dim: int, theta: float, sections: tuple[int, int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin for 3-D positions.

    positions `[3, ...]` (time, height, width; fractional never) -> two fp32 tensors `[..., rotary_dim]`. Frequency
    j takes the height position when j % 3 == 1 and j < 3 * sections[1], the width position when j % 3 == 2 and
    j < 3 * sections[2], else time.
    """
    half = rotary_dim // 2
    index = torch.arange(half, device=positions.device)
    inv_freq = 1.0 / theta ** (torch.arange(0, rotary_dim, 2, dtype=torch.float, device=positions.device) / rotary_dim)
    axis = torch.zeros_like(index)
    axis[(index % 3 == 1) & (index < 3 * sections[1])] = 1
    axis[(index % 3 == 2) & (index < 3 * sections[2])] = 2
    angles = positions.float().movedim(0, -1)[..., axis] * inv_freq
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def vision_rope(rows: torch.Tensor, columns: torch.Tensor, head_dim: int, theta: float):
    """cos and sin `[N, head_dim]` fp32 for patch rows and columns `[N]`."""
    quarter = head_dim // 2
    inv_freq = 1.0 / theta ** (torch.arange(0, quarter, 2, dtype=torch.float, device=rows.device) / quarter)
    angles = torch.cat([rows.float()[:, None] * inv_freq, columns.float()[:, None] * inv_freq], dim=-1)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first `cos.shape[-1]` dims of x `[..., D]` (pairs i, i + half); the rest passes through.

    cos and sin must broadcast against x's leading axes. Computed in the dtype of x * cos.
    """
    n = cos.shape[-1]
    first, second, rest = x.split([n // 2, n // 2, x.shape[-1] - n], dim=-1)
    cos, sin = cos[..., : n // 2], sin[..., : n // 2]  # both halves are equal
    turned = [torch.addcmul(first * cos, second, sin, value=-1), torch.addcmul(second * cos, first, sin)]
    return torch.cat([*turned, rest.to(turned[0].dtype)], dim=-1)
