"""The rounding of `ocria.ops.quant_grid` for kernels: the same codes, bit for bit."""

import triton
import triton.language as tl


@triton.jit
def to_e4m3(x, INTERPRETED: tl.constexpr):
    """fp32 `x` as float8e4nv, to nearest even, beyond 448 to 448; NaN stays NaN.

    GPUs have an instruction for it. The interpreter's cast is wrong where rounding carries into the exponent and for
    NaN, and right for what is on the grid already.
    """
    x = tl.where(x > 448.0, 448.0, tl.where(x < -448.0, -448.0, x))
    if INTERPRETED:
        bits = x.to(tl.uint32, bitcast=True)
        sign = bits & 0x80000000
        size = bits & 0x7FFFFFFF
        normal = (size + 0x7FFFF + ((size >> 20) & 1)) & 0xFFF00000
        # Below 2^-6 the grid is the multiples of 2^-9: the last bit of fp32 numbers between 2^14 and 2^15.
        small = (size.to(tl.float32, bitcast=True) + 16384.0) - 16384.0
        nearest = tl.where(size < 0x3C800000, small.to(tl.uint32, bitcast=True), normal) | sign
        code = nearest.to(tl.float32, bitcast=True).to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        return tl.where(x == x, code, 0x7F).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
    return x.to(tl.float8e4nv)


@triton.jit
def from_e4m3(x, INTERPRETED: tl.constexpr):
    """float8e4nv `x` as fp32; to the interpreter its NaN would be 480."""
    values = x.to(tl.float32)
    if INTERPRETED:
        code = x.to(tl.uint8, bitcast=True)
        values = tl.where((code & 0x7F) == 0x7F, float("nan"), values)
    return values


@triton.jit
def to_e2m1(x):
    """fp32 `x` as codes int32 of e2m1, to nearest with ties to the even code, beyond 6 to 6; NaN becomes 0."""
    a = tl.abs(x)
    code = (a > 0.25).to(tl.int32) + (a >= 0.75).to(tl.int32) + (a > 1.25).to(tl.int32) + (a >= 1.75).to(tl.int32)
    code += (a > 2.5).to(tl.int32) + (a >= 3.5).to(tl.int32) + (a > 5.0).to(tl.int32)
    return code | ((x < 0.0).to(tl.int32) << 3)


@triton.jit
def e2m1_parts(packed):
    """The fp32 values of the low and the high nibbles of bytes, times 2^-126: no table, and two shifts for each.

    The three bits of a code are the last bits of an fp32 exponent and the first of its mantissa; with bias 1 for 127,
    e2m1's 0.5 is a subnormal number there as it is here.
    """
    wide = packed.to(tl.uint32)
    low = ((wide & 7) << 22) | ((wide & 8) << 28)
    high = ((wide & 0x70) << 18) | ((wide & 0x80) << 24)
    return low.to(tl.float32, bitcast=True), high.to(tl.float32, bitcast=True)


@triton.jit
def swizzled_at(row, group, groups):
    """Where the scale of a row and a group of columns lies: `ocria.ops.quant_swizzle`."""
    tile = (row // 128) * ((groups + 3) // 4) + group // 4
    return tile * 512 + (row % 32) * 16 + ((row % 128) // 32) * 4 + group % 4
