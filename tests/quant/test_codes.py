"""Every code, every rounding boundary and its neighbours, against torch and tables computed in another way."""

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from weights_made import same_bits

from ocria.ops.quant_grid import from_e2m1, pack_fp4, unpack_fp4
from ocria.quant.codes import decode_fp8, decode_packed_fp4, encode_fp4, encode_fp8

ALL_BYTES = torch.arange(256, dtype=torch.uint8)
ALL_FP8 = ALL_BYTES.view(torch.float8_e4m3fn)


def value(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> Fraction:
    """The number of a code without its sign, by the definition of a small float."""
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    assert exponent < 1 << exponent_bits
    step = Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    return (mantissa + ((1 << mantissa_bits) if exponent else 0)) * step


FP4 = [value(code, 2, 1, 1) for code in range(8)]
FP8 = [value(code, 4, 3, 7) for code in range(127)]


def nearest(x: float, table: list[Fraction]) -> int:
    """The code of a magnitude: the nearest number, from halfway the even code, beyond the last one that."""
    x = min(Fraction(x), table[-1])
    return min(range(len(table)), key=lambda code: (abs(table[code] - x), code % 2))


def boundaries(table: list[Fraction]) -> torch.Tensor:
    """Every number, every point halfway between two, their neighbours in fp32, and what lies beyond."""
    points = torch.tensor([float(v) for v in table] + [float(a + b) / 2 for a, b in pairwise(table)])
    beyond = torch.tensor([1e-45, 1e-38, 1e30, torch.finfo(torch.float32).max])
    infinity = torch.tensor(torch.inf)
    around = [torch.nextafter(points, infinity), torch.nextafter(points, torch.zeros(())), points * 1.01, points]
    points = torch.cat([*around, beyond])
    return torch.cat([points, -points])


def test_the_values_of_all_fp4_codes():
    values = from_e2m1(torch.arange(16, dtype=torch.uint8))
    expected = torch.tensor([float(v) for v in FP4])
    assert same_bits(values, torch.cat([expected, -expected]))


def test_fp4_rounds_to_the_nearest_and_halfway_to_the_even_code():
    x = boundaries(FP4)
    expected = [nearest(abs(v), FP4) + (8 if v < 0 else 0) for v in x.tolist()]
    assert encode_fp4(x).tolist() == expected


def test_fp4_codes_stay_what_they_are_with_the_sign_of_zero_as_asked():
    codes = torch.arange(16, dtype=torch.uint8)
    values = from_e2m1(codes)
    assert torch.equal(encode_fp4(values, signed_zero=True), codes)
    assert torch.equal(encode_fp4(values), torch.where(codes == 8, 0, codes))
    assert encode_fp4(torch.tensor(-0.1)) == 8


def test_packing_puts_the_even_index_low():
    codes = torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)
    assert pack_fp4(codes).tolist() == [[0x21, 0x0F]]
    assert torch.equal(unpack_fp4(pack_fp4(codes)), codes)


def test_all_bytes_survive_unpacking_and_packing():
    assert torch.equal(pack_fp4(unpack_fp4(ALL_BYTES)), ALL_BYTES)


def test_packed_codes_are_decoded_in_one_go():
    assert same_bits(decode_packed_fp4(ALL_BYTES.view(8, 32)), from_e2m1(unpack_fp4(ALL_BYTES.view(8, 32))))
    assert decode_packed_fp4(torch.zeros(0, 3, dtype=torch.uint8)).shape == (0, 6)


def test_the_values_of_all_fp8_codes():
    values = decode_fp8(ALL_FP8)
    expected = torch.tensor([float(v) for v in FP8] + [torch.nan])
    assert same_bits(values.nan_to_num(1e9), torch.cat([expected, -expected]).nan_to_num(1e9))
    assert same_bits(values, ALL_FP8.to(torch.float32))


def test_fp8_rounds_to_the_nearest_and_halfway_to_the_even_code():
    x = boundaries(FP8)
    expected = [nearest(abs(v), FP8) + (128 if v < 0 or str(v) == "-0.0" else 0) for v in x.tolist()]
    assert encode_fp8(x).view(torch.uint8).tolist() == expected


def test_fp8_codes_stay_what_they_are():
    same = encode_fp8(decode_fp8(ALL_FP8)).view(torch.uint8)
    assert torch.equal(same, ALL_BYTES)


def test_fp8_agrees_with_the_cast_of_torch(rng):
    x = torch.randn(200_000, generator=rng) * torch.exp2(torch.randint(-14, 9, (200_000,), generator=rng))
    x = torch.cat([x, x.bfloat16().float(), boundaries(FP8)])
    x = x[x.abs() <= 448]
    assert same_bits(encode_fp8(x), x.to(torch.float8_e4m3fn))


def test_fp8_saturates():
    x = torch.tensor([449.0, 464.0, 465.0, 1e30, torch.inf])
    assert decode_fp8(encode_fp8(x)).tolist() == [448.0] * 5
    assert decode_fp8(encode_fp8(-x)).tolist() == [-448.0] * 5
    assert decode_fp8(encode_fp8(torch.tensor(torch.nan))).isnan()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes_are_rounded_once(rng, dtype):
    x = (torch.randn(10_000, generator=rng) * 8).to(dtype)
    assert same_bits(encode_fp8(x), encode_fp8(x.float()))
    assert torch.equal(encode_fp4(x), encode_fp4(x.float()))


def test_shapes_and_strides_do_not_matter(rng):
    x = torch.randn(7, 12, generator=rng)
    assert same_bits(encode_fp8(x.T), encode_fp8(x.T.contiguous()))
    assert torch.equal(encode_fp4(x.T), encode_fp4(x).T)
    assert encode_fp8(torch.zeros(0, 3)).shape == (0, 3)
