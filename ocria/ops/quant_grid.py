"""The number grids of quantised tensors: e4m3 and e2m1, rounded to nearest even and decoded.

FP8 is `torch.float8_e4m3fn`: up to 448, smallest 2^-9, with a NaN and no infinity. FP4 (e2m1) is 0, 0.5, 1, 1.5, 2, 3,
4, 6 as the codes 0 to 7, bit 3 the sign; two codes make a byte, the even column in the low nibble. NVFP4 is FP4 with an
e4m3 scale for every 16 columns and fp32 multipliers of the whole tensor: value = code * scale * multiplier. Source: the
checkpoint formats of compressed-tensors and ModelOpt.
"""

import torch

E4M3_MAX = 448.0
E2M1_MAX = 6.0
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The values of the codes 0 to 7."""
FP4_BLOCK = 16
"""Columns that share an NVFP4 scale."""
FP8_BLOCK = 128
"""Rows and columns that share a block scale of FP8."""
LEAST_SCALE = 2.0**-126
"""The least dynamic scale: rows of zeros have this one, and no scale is subnormal."""


def to_e4m3(x: torch.Tensor) -> torch.Tensor:
    """fp32 `[...]` -> float8_e4m3fn `[...]`, to nearest even, beyond 448 to 448; NaN stays NaN."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def to_e2m1(x: torch.Tensor) -> torch.Tensor:
    """fp32 `[...]` -> codes uint8 `[...]`, to nearest with ties to the even code, beyond 6 to 6.

    Whatever is negative has the sign bit, also where it is rounded to zero. NaN, which e2m1 does not have, becomes 0.
    """
    a = x.abs()
    borders = ((a > 0.25), (a >= 0.75), (a > 1.25), (a >= 1.75), (a > 2.5), (a >= 3.5), (a > 5.0))
    code = sum(border.to(torch.uint8) for border in borders)
    return code | ((x < 0).to(torch.uint8) << 3)


def pack_fp4(codes: torch.Tensor) -> torch.Tensor:
    """Codes uint8 `[..., K]`, K even -> bytes uint8 `[..., K / 2]`."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_fp4(packed: torch.Tensor) -> torch.Tensor:
    """Bytes uint8 `[..., K / 2]` -> codes uint8 `[..., K]`."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def from_e2m1(codes: torch.Tensor) -> torch.Tensor:
    """Codes uint8 `[...]` -> their values, fp32 `[...]`."""
    values = torch.tensor([*E2M1, *(-value for value in E2M1)], device=codes.device)
    return values[codes.long()]


def decode_nvfp4(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """code * scale as fp32 `[N, K]`, without the multiplier; exact, and exact in bf16.

    packed uint8 `[N, K / 2]`; scales float8_e4m3fn `[N, K / 16]`. A code has two significant bits and a scale four, so
    their product has at most six.
    """
    values = from_e2m1(unpack_fp4(packed)).unflatten(-1, (-1, FP4_BLOCK))
    return (values * scales.float()[..., None]).flatten(-2)


def spread_blocks(scale: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Block scales `[ceil(rows / 128), ceil(columns / 128)]` as `[rows, columns]`; last blocks may be ragged."""
    spread = scale.repeat_interleave(FP8_BLOCK, 0)[:rows]
    return spread.repeat_interleave(FP8_BLOCK, 1)[:, :columns]


def decode_fp8(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """code * scale as fp32 `[N, K]`.

    codes float8_e4m3fn `[N, K]`; scale fp32 of one element, of `[N]` or `[N, 1]`, or of blocks
    `[ceil(N / 128), ceil(K / 128)]`.
    """
    rows, columns = codes.shape
    if scale.numel() == 1:
        return codes.float() * scale.view(1, 1)
    if scale.numel() == rows and scale.shape[0] == rows:
        return codes.float() * scale.view(-1, 1)
    return codes.float() * spread_blocks(scale, rows, columns)
