"""The rounding of fp32 results to the network's dtype."""

import triton
import triton.language as tl


@triton.jit
def rounded(x, DTYPE: tl.constexpr, INTERPRETED: tl.constexpr):
    """fp32 `x` as `DTYPE`, to nearest even: what hardware does, and what the interpreter's bf16 cast does not."""
    if INTERPRETED and DTYPE == tl.bfloat16:  # noqa: SIM300
        bits = x.to(tl.uint32, bitcast=True)
        nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        x = tl.where(x == x, nearest.to(tl.float32, bitcast=True), x)
    return x.to(DTYPE)
