"""W4A4 products by torch's `scaled_mm` (cuBLAS) on GPUs that have FP4: for many rows, where a library's tiles win.

Both factors have swizzled scales. No other device takes NVFP4 there: the engine's kernel (`ocria.ops.quant_nvfp4`) runs
everywhere, and which of the two runs is the caller's choice, not a fallback.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ocria.errors import UsageError
from ocria.ops.quant_rows import Fp4Rows


def has_scaled_mm(device: torch.device) -> bool:
    """Whether torch multiplies NVFP4 on this device: Blackwell, from compute capability 10.0 on."""
    return device.type == "cuda" and hasattr(F, "scaled_mm") and torch.cuda.get_device_capability(device)[0] >= 10


def nvfp4_scaled_mm(
    rows: Fp4Rows, codes: Tensor, scales: Tensor, multiplier: Tensor, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """M rows with swizzled scales times weights -> `[M, N]` of dtype.

    codes uint8 `[N, K / 2]`; scales float8_e4m3fn, swizzled; multiplier fp32 of one element. K and N are multiples of
    32. Raises UsageError on devices without it and for what it does not take.
    """
    if not has_scaled_mm(codes.device):
        raise UsageError(f"torch multiplies no NVFP4 on {codes.device}", cure="Use `nvfp4_linear_rows`.")
    if not rows.swizzled or scales.dim() != 1 or multiplier.numel() != 1:
        raise UsageError("`scaled_mm` takes swizzled scales and one multiplier for each factor")
    kinds = [F.ScalingType.BlockWise1x16, F.ScalingType.TensorWise]
    layouts = [F.SwizzleType.SWIZZLE_32_4_4, F.SwizzleType.NO_SWIZZLE]
    return F.scaled_mm(
        rows.codes.view(torch.float4_e2m1fn_x2), codes.view(torch.float4_e2m1fn_x2).t(),
        [rows.scales, rows.multiplier.view(1)], kinds, [scales, multiplier.view(1)], kinds,
        swizzle_a=layouts, swizzle_b=layouts, output_dtype=dtype,
    )  # fmt: skip
