"""The two small floats of quantised weights, E2M1 (FP4) and E4M3 (FP8), as files want them.

Both are made by explicit rounding in fp32, to the nearest value and from halfway to the even code. Casts would do for
neither: there is none for E2M1, and one to E4M3 overflows to NaN here, saturates there, and rounds twice where it
goes through fp16. Decoding is exact.
"""

import torch

from ocria.ops.quant_grid import E4M3_MAX, from_e2m1, unpack_fp4

FP8_TINY = 2.0**-9
"""The smallest E4M3 number above 0."""

_HALFWAY = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_NAN = 0x7F


def encode_fp4(x: torch.Tensor, *, signed_zero: bool = False) -> torch.Tensor:
    """The E2M1 codes (uint8, 0 to 15) of the shape of x, saturated at 6.

    signed_zero: whether an input of -0.0 gets the code of -0.0, as where compressed-tensors packs values that are E2M1
    already, or that of 0.0, as where it and ModelOpt quantise. Small negative numbers become -0.0 either way.
    """
    x = x.float().contiguous()
    negative = torch.signbit(x) if signed_zero else x < 0
    magnitude = torch.bucketize(x.abs(), _bounds(x.device), out_int32=True)
    return magnitude.to(torch.uint8) | (negative.to(torch.uint8) << 3)


def decode_packed_fp4(packed: torch.Tensor) -> torch.Tensor:
    """The fp32 values `[..., K]` of packed codes `[..., K / 2]`."""
    every = torch.arange(256, dtype=torch.uint8, device=packed.device)[:, None]
    pairs = from_e2m1(unpack_fp4(every)).view(torch.int64).flatten()  # the two values of a byte, fetched as one number
    values = pairs.index_select(0, packed.flatten().int()).view(torch.float32)
    return values.view(*packed.shape[:-1], 2 * packed.shape[-1])


def encode_fp8(x: torch.Tensor) -> torch.Tensor:
    """x as `torch.float8_e4m3fn`, saturated at 448; NaN stays NaN."""
    x = x.float()
    magnitude = x.abs().clamp(max=E4M3_MAX)
    bits = magnitude.contiguous().view(torch.int32)
    # A number of E4M3 keeps three bits of the mantissa; half of the last kept bit is added, less one where that bit
    # is 0 and halfway must go down. A carry runs into the exponent, as it should. 120 is the difference of the biases.
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)
    small = torch.round(magnitude / FP8_TINY).int()  # below 2^-6 the codes are evenly spaced
    codes = torch.where(magnitude < 2.0**-6, small, normal)
    codes = torch.where(x.isnan(), _NAN, codes) | (torch.signbit(x).int() << 7)
    return codes.to(torch.uint8).view(torch.float8_e4m3fn)


def decode_fp8(codes: torch.Tensor) -> torch.Tensor:
    """The fp32 values of `torch.float8_e4m3fn` codes."""
    return codes.float()


def _bounds(device: torch.device) -> torch.Tensor:
    """Above which magnitudes the next code begins. Halfway between an odd code and the even one above it goes up: there
    the bound is the number just below."""
    bounds = torch.tensor(_HALFWAY)
    bounds[1::2] = torch.nextafter(bounds[1::2], torch.zeros(()))
    return bounds.to(device)
