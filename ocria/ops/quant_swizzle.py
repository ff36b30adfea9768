"""The 128x4 layout of NVFP4 block scales that Blackwell's matrix products read (cuBLAS; torch's SWIZZLE_32_4_4).

Rows are padded to 128 and groups of 16 columns to 4. The tiles of 128 x 4 scales lie one after the other; in a tile,
row r and group g are byte (r % 32) * 16 + (r // 32) * 4 + g.
"""

import torch


def swizzled_size(rows: int, groups: int) -> int:
    """Scales in the layout, padding counted."""
    return -(-rows // 128) * 128 * (-(-groups // 4) * 4)


def swizzle_scales(scales: torch.Tensor) -> torch.Tensor:
    """Scales float8_e4m3fn `[rows, groups]`, row after row -> `[swizzled_size]`; padding is zero."""
    rows, groups = scales.shape
    tall, wide = -(-rows // 128), -(-groups // 4)
    padded = scales.new_zeros(tall * 128, wide * 4)
    padded[:rows, :groups] = scales
    return padded.view(tall, 4, 32, wide, 4).permute(0, 3, 2, 1, 4).reshape(-1)


def unswizzle_scales(swizzled: torch.Tensor, rows: int, groups: int) -> torch.Tensor:
    """What `swizzle_scales` made, as `[rows, groups]` again."""
    tall, wide = -(-rows // 128), -(-groups // 4)
    padded = swizzled.view(tall, wide, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(tall * 128, wide * 4)
    return padded[:rows, :groups].contiguous()
