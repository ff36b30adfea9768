"""Every code and every border between two codes, by torch and by the kernel that quantises; the swizzled layout."""

import pytest
import torch
from quant_made import DEVICE, codes_of, generator, scales

from ocria.ops.quant_grid import (
    E2M1,
    decode_fp8,
    decode_nvfp4,
    from_e2m1,
    pack_fp4,
    spread_blocks,
    to_e2m1,
    to_e4m3,
    unpack_fp4,
)
from ocria.ops.quant_rows import quant_rows_op
from ocria.ops.quant_swizzle import swizzle_scales, swizzled_size, unswizzle_scales

FORM = pytest.mark.parametrize("form", ["torch_form", "kernel"])


def e4m3_value(code: int) -> float:
    """By the definition of the format."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code >> 3) & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return float("nan")
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def borders(values: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers on and next to every value and every border between two, and the index that each rounds to."""
    x, index = [], []
    for i, value in enumerate(values):
        x.append(value)
        index.append(i)
        if i + 1 < len(values):
            middle = torch.tensor((value + values[i + 1]) / 2)  # exact in fp32
            below, above = (torch.nextafter(middle, torch.tensor(side)) for side in (-1e9, 1e9))
            x += [below.item(), middle.item(), above.item()]
            index += [i, i if i % 2 == 0 else i + 1, i + 1]
    return torch.tensor(x), torch.tensor(index, dtype=torch.uint8)


def fp8_codes(form: str, x: torch.Tensor) -> torch.Tensor:
    one = torch.ones(1, device=DEVICE)
    row = x.to(DEVICE).view(1, 1, -1)
    return codes_of(getattr(quant_rows_op, form)(row, None, None, 0.0, "plain", "static", one, None, False)[0])[0].cpu()


@FORM
def test_every_border_of_e4m3(form):
    x, code = borders([e4m3_value(code) for code in range(127)])
    assert torch.equal(fp8_codes(form, x), code)
    assert torch.equal(fp8_codes(form, -x), code | 0x80)
    assert torch.equal(codes_of(to_e4m3(x)), code)


@FORM
def test_e4m3_beyond_its_grid(form):
    tiny, huge, infinite, nan = 1e-45, 3e38, float("inf"), float("nan")
    x = torch.tensor([tiny, -tiny, 463.9, 464.0, 465.0, huge, -huge, infinite, -infinite, nan])
    codes = fp8_codes(form, x)
    assert codes[:-1].tolist() == [0, 0x80, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0xFE]
    assert codes[-1] & 0x7F == 0x7F


@FORM
def test_random_numbers_round_to_the_nearest(form):
    x = torch.randn(600, generator=generator()) * 2.0 ** torch.randint(-12, 9, (600,), generator=generator())
    found = torch.tensor([e4m3_value(code) for code in fp8_codes(form, x).tolist()])
    grid = torch.tensor([e4m3_value(code) for code in range(256)])
    grid = grid[grid.isfinite()]
    nearest = (x[:, None].double() - grid.double()).abs().amin(1)
    assert torch.equal((x.double() - found.double()).abs(), nearest)


def test_every_code_of_e4m3_is_decoded():
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(16, 16)
    expected = torch.tensor([e4m3_value(code) for code in range(256)]).view(16, 16)
    for scale in (torch.tensor(0.5), torch.tensor([0.5]), torch.full((16,), 0.5), torch.full((16, 1), 0.5)):
        assert torch.equal(decode_fp8(codes, scale).nan_to_num(9e9), (expected * 0.5).nan_to_num(9e9))


@FORM
def test_every_border_of_e2m1_with_every_scale(form):
    """A block whose greatest size is 6 s has the scale s: all borders times all scales, the subnormal ones too."""
    middle = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    # The division by the scale rounds: what is not the border itself is more than that off it.
    x = torch.cat([middle, middle * (1 - 2.0**-20), middle * (1 + 2.0**-20), torch.tensor([*E2M1, 0.0])]).view(2, 15)
    code = torch.tensor([0, 2, 2, 4, 4, 6, 6, *range(7), *range(1, 8), *range(8), 0], dtype=torch.uint8).view(2, 15)
    x = torch.cat([x, torch.full((2, 1), 6.0)], 1)
    code = torch.cat([code, torch.full((2, 1), 7, dtype=torch.uint8)], 1)
    x, code = torch.cat([x, -x]).flatten(), torch.cat([code, code | 8]).flatten()
    code[(x == 0) & (code == 8)] = 0
    scale = torch.tensor([e4m3_value(code) for code in range(1, 127)])
    rows = (x * scale[:, None]).view(len(scale), 1, -1).to(DEVICE)
    multiplier = torch.ones(1, device=DEVICE)
    form = getattr(quant_rows_op, form)
    found, scales, *_ = form(rows, None, None, 0.0, "plain", "nvfp4", multiplier, None, False)
    assert torch.equal(scales.float().cpu(), scale[:, None].expand(-1, 4))
    assert torch.equal(unpack_fp4(found).cpu(), code.expand(len(scale), -1))


def test_every_code_of_e2m1():
    codes = torch.arange(16, dtype=torch.uint8)
    values = from_e2m1(codes)
    assert values.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
    assert to_e2m1(values).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, *range(9, 16)]
    assert to_e2m1(torch.tensor([-1e-30, -0.25, 7.0, -1e30, float("nan")])).tolist() == [8, 8, 7, 15, 0]


def test_packing():
    g = generator()
    codes = torch.randint(0, 16, (3, 10), generator=g, dtype=torch.uint8)
    assert pack_fp4(codes)[1, 2] == codes[1, 4] + 16 * codes[1, 5]
    assert torch.equal(unpack_fp4(pack_fp4(codes)), codes)


def test_a_code_times_its_scale_is_exact_in_bf16():
    all_codes = torch.arange(256, dtype=torch.uint8).view(1, -1).expand(127, -1)
    block = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).view(-1, 1).expand(-1, 32).contiguous()
    values = decode_nvfp4(all_codes, block)
    assert torch.equal(values.bfloat16().float(), values)
    first = from_e2m1(torch.arange(256, dtype=torch.uint8) & 15).double()
    assert torch.equal(values[:, 0::2].double(), first * block[:, :1].double())


@pytest.mark.parametrize("shape", [(1, 1), (128, 128), (129, 257), (300, 40)])
def test_scales_of_blocks(shape):
    blocks = torch.rand(-(-shape[0] // 128), -(-shape[1] // 128), generator=generator())
    spread = spread_blocks(blocks, *shape)
    assert spread.shape == shape
    for row, column in ((0, 0), (shape[0] - 1, shape[1] - 1), (shape[0] // 2, shape[1] // 3)):
        assert spread[row, column] == blocks[row // 128, column // 128]


@pytest.mark.parametrize("shape", [(1, 1), (128, 4), (7, 3), (129, 5), (300, 17)])
def test_swizzled_scales_lie_where_the_formula_says(shape):
    rows, groups = shape
    plain = scales(generator(), rows, groups)
    swizzled = codes_of(swizzle_scales(plain))
    wide = -(-groups // 4)
    assert swizzled.shape == (swizzled_size(rows, groups),)
    m = torch.arange(rows, device=DEVICE)[:, None]
    k = torch.arange(groups, device=DEVICE)[None, :]
    at = ((m // 128) * wide + k // 4) * 512 + (m % 32) * 16 + ((m % 128) // 32) * 4 + k % 4
    assert torch.equal(swizzled[at], codes_of(plain))
    swizzled[at] = 0
    assert not swizzled.any()
    again = unswizzle_scales(swizzle_scales(plain), rows, groups)
    assert torch.equal(codes_of(again), codes_of(plain))
