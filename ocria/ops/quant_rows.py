"""Rows quantised by what makes them: a norm, a gate or nothing, and the quantiser behind it, in one pass.

The result is that of the plain op (`ocria.ops.norm`, `silu(gate) * up`, `o * sigmoid(gate)`), rounded to the network's
dtype as ever, and then of the quantiser; only the rounded value is never written. A layer some of whose projections
are not quantised asks for it with `keep`.

Targets:

- `token`: FP8, a scale for each row: the greatest size / 448.
- `static`: FP8, one scale, given.
- `block`: FP8, a scale for every 128 columns of a row (the last may be fewer).
- `nvfp4`, `nvfp4_swizzled`: FP4 with an e4m3 scale for every 16 columns, and one multiplier, given (the calibrated
  greatest size / (448 * 6)). Swizzled: the scales as Blackwell's products read them (`ocria.ops.quant_swizzle`).

NaN stays visible: as a code of FP8, and in the scale of its block of FP4. Infinity makes a dynamic FP8 row NaN and is
the greatest number of the others.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ocria.errors import UsageError
from ocria.ops import norm
from ocria.ops.quant_grid import E2M1_MAX, E4M3_MAX, FP4_BLOCK, FP8_BLOCK, LEAST_SCALE, pack_fp4, to_e2m1, to_e4m3
from ocria.ops.quant_swizzle import swizzle_scales, swizzled_size
from ocria.ops.register import register

TARGETS = ("token", "static", "block", "nvfp4", "nvfp4_swizzled")


class Fp8Rows(NamedTuple):
    """codes float8_e4m3fn `[M, K]`; scale fp32 of one element, `[M, 1]` or `[M, ceil(K / 128)]`."""

    codes: Tensor
    scale: Tensor


class Fp4Rows(NamedTuple):
    """codes uint8 `[M, K / 2]`; scales float8_e4m3fn `[M, K / 16]`, or of one dimension when swizzled; multiplier fp32
    of one element."""

    codes: Tensor
    scales: Tensor
    multiplier: Tensor
    swizzled: bool


Rows = Fp8Rows | Fp4Rows


class Target(NamedTuple):
    """What to quantise to.

    factor: fp32 of one element, the scale of `static` or the multiplier of NVFP4; None with the others. pre: fp32
    `[K]`, multiplied in before the quantiser (AWQ's pre_quant_scale), or None.
    """

    kind: str
    factor: Tensor | None = None
    pre: Tensor | None = None


def quantise(x: Tensor, target: Target) -> Rows:
    """x `[..., K]` -> M rows. Raises UsageError for a target that does not exist or does not fit, as all of these."""
    return _rows(quant_rows_op(_flat(x), None, None, 0.0, "plain", *_checked(target), False), target)


def rms_norm_quant(x: Tensor, scale: Tensor, eps: float, target: Target, keep: bool = False) -> tuple[Rows, Tensor]:
    """`rms_norm(x, scale, eps)` quantised, and unquantised `[M, K]` with `keep`, else empty."""
    found = quant_rows_op(_flat(x), None, scale, eps, "norm", *_checked(target), keep)
    return _rows(found, target), found[3]


def add_rms_norm_quant(
    x: Tensor, residual: Tensor, scale: Tensor, eps: float, target: Target, keep: bool = False
) -> tuple[Rows, Tensor, Tensor]:
    """`add_rms_norm`: the norm of `residual + x` quantised, that sum `[M, K]`, and the norm as in `rms_norm_quant`."""
    found = quant_rows_op(_flat(x), _flat(residual), scale, eps, "add_norm", *_checked(target), keep)
    return _rows(found, target), found[2], found[3]


def gated_rms_norm_quant(x: Tensor, gate: Tensor, weight: Tensor, eps: float, target: Target) -> Rows:
    """`gated_rms_norm` of every head, x and gate `[..., H, D]`, D a power of two -> rows of K = H * D columns."""
    return _rows(quant_rows_op(_heads(x), _heads(gate), weight, eps, "gated_norm", *_checked(target), False), target)


def silu_mul_quant(gate: Tensor, up: Tensor, target: Target) -> Rows:
    """`silu(gate) * up`, both `[..., K]`; the SiLU is rounded to the dtype before the product."""
    return _rows(quant_rows_op(_flat(gate), _flat(up), None, 0.0, "silu_mul", *_checked(target), False), target)


def sigmoid_mul_quant(o: Tensor, gate: Tensor, target: Target) -> Rows:
    """`o * sigmoid(gate)`, both `[..., H, D]`, in fp32 and rounded once -> rows of K = H * D columns."""
    return _rows(quant_rows_op(_heads(o), _heads(gate), None, 0.0, "sigmoid_mul", *_checked(target), False), target)


def dequantise(rows: Rows) -> Tensor:
    """What the codes stand for, fp32 `[M, K]`."""
    from ocria.ops.quant_grid import decode_nvfp4
    from ocria.ops.quant_swizzle import unswizzle_scales

    if isinstance(rows, Fp4Rows):
        scales = rows.scales
        if rows.swizzled:
            scales = unswizzle_scales(scales, rows.codes.shape[0], rows.codes.shape[1] * 2 // FP4_BLOCK)
        return decode_nvfp4(rows.codes, scales) * rows.multiplier
    columns = rows.codes.shape[1]
    scale = rows.scale
    if scale.dim() == 2 and scale.shape[1] > 1:
        scale = scale.repeat_interleave(FP8_BLOCK, 1)[:, :columns]
    return rows.codes.float() * scale


def quant_rows_reference(a, b, weight, eps, kind, target, factor=None, pre=None):
    """The values row by row and block by block as fp32 `[M, K]`, quantised: `(codes, scales)`, unpacked and linear.

    Arguments as of `quant_rows_op`. The codes of FP4 are those of e2m1, one a column.
    """
    values, _ = _values(a, b, weight, eps, kind)
    values = values.float() if pre is None else values.float() * pre
    codes, scales = [], []
    for row in values:
        size = {"token": len(row), "static": len(row), "block": FP8_BLOCK}.get(target, FP4_BLOCK)
        for block in row.split(size):
            greatest = block.abs().max()
            if target in ("token", "block"):
                scales.append((greatest / E4M3_MAX).clamp(min=LEAST_SCALE))
                codes.append(to_e4m3(block / scales[-1]))
            elif target == "static":
                codes.append(to_e4m3(block / factor))
            else:
                scale = to_e4m3(greatest / (E2M1_MAX * factor.reshape(())))
                step = scale.float() * factor
                scales.append(scale)
                codes.append(to_e2m1(block / step) if step > 0 else torch.zeros_like(block, dtype=torch.uint8))
    scales = torch.stack(scales).view(len(values), -1) if scales else factor
    return torch.cat(codes).view(values.shape), scales


def _flat(x: Tensor) -> Tensor:
    """`[..., K]` as `[M, 1, K]`: a view of a part of a wider tensor where that is possible."""
    x = x.reshape(-1, 1, x.shape[-1])
    return x if x.stride(-1) == 1 else x.contiguous()


def _heads(x: Tensor) -> Tensor:
    x = x.reshape(-1, *x.shape[-2:])
    return x if x.stride(-1) == 1 else x.contiguous()


def _checked(target: Target) -> tuple[str, Tensor | None, Tensor | None]:
    if target.kind not in TARGETS:
        raise UsageError(f"{target.kind!r} is nothing to quantise to", cure=f"Use one of {', '.join(TARGETS)}.")
    if (target.factor is None) != (target.kind in ("token", "block")):
        raise UsageError(f"quantising to {target.kind}: a factor is {'missing' if target.factor is None else 'given'}")
    return target


def _rows(found: tuple[Tensor, ...], target: Target) -> Rows:
    codes, scales = found[:2]
    if target.kind.startswith("nvfp4"):
        return Fp4Rows(codes, scales, target.factor, target.kind == "nvfp4_swizzled")
    return Fp8Rows(codes, target.factor if target.kind == "static" else scales)


def _values(a, b, weight, eps, kind) -> tuple[Tensor, Tensor]:
    """What is to be quantised, `[M, K]` in the network's dtype, and the residual sum or nothing."""
    none = a.new_empty(0)
    if kind == "norm":
        return norm.rms_norm_op.torch_form(a.flatten(1), weight, eps), none
    if kind == "add_norm":
        return norm.add_rms_norm_op.torch_form(a.flatten(1), b.flatten(1), weight, eps)
    if kind == "gated_norm":
        return norm.gated_rms_norm_op.torch_form(a, b, weight, eps).flatten(1), none
    if kind == "silu_mul":
        return (F.silu(a) * b).flatten(1), none
    if kind == "sigmoid_mul":
        return (a.float() * b.float().sigmoid()).to(a.dtype).flatten(1), none
    return a.flatten(1), none


def _torch_form(a, b, weight, eps, kind, target, factor, pre, keep):
    values, added = _values(a, b, weight, eps, kind)
    _check_columns(values.shape[1], target)
    kept = values.clone() if keep else a.new_empty(0)
    values = values.float() if pre is None else values.float() * pre
    if target == "static":
        return to_e4m3(values / factor), factor.new_empty(0), added, kept
    if target == "token":
        scale = (values.abs().amax(1, keepdim=True) / E4M3_MAX).clamp(min=LEAST_SCALE)
        return to_e4m3(values / scale), scale, added, kept
    rows, columns = values.shape
    if target == "block":
        blocks = F.pad(values, (0, -columns % FP8_BLOCK)).view(rows, -1, FP8_BLOCK)
        scale = (blocks.abs().amax(2) / E4M3_MAX).clamp(min=LEAST_SCALE)
        return to_e4m3((blocks / scale[..., None]).view(rows, -1)[:, :columns]).contiguous(), scale, added, kept
    blocks = values.view(rows, -1, FP4_BLOCK)
    scales = to_e4m3(blocks.abs().amax(2) / (E2M1_MAX * factor))
    step = scales.float() * factor
    codes = to_e2m1(blocks / torch.where(step > 0, step, torch.inf)[..., None]).flatten(1)
    return pack_fp4(codes), swizzle_scales(scales) if target == "nvfp4_swizzled" else scales, added, kept


def _launch(
    a: Tensor, b: Tensor | None, weight: Tensor | None, eps: float, kind: str, target: str, factor: Tensor | None,
    pre: Tensor | None, keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    from ocria.ops.kernels.quant_rows import launch

    _check_columns(a.shape[1] * a.shape[2], target)
    return launch(a, b, weight, eps, kind, target, factor, pre, keep)


def _fake(a, b, weight, eps, kind, target, factor, pre, keep):
    return outputs(a, b, kind, target, keep)


def outputs(a: Tensor, b: Tensor | None, kind: str, target: str, keep: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes, scales, residual sum and unquantised rows, not filled; empty where there are none."""
    rows, columns = a.shape[0], a.shape[1] * a.shape[2]
    added = b.new_empty(rows, columns) if kind == "add_norm" else a.new_empty(0)
    kept = a.new_empty(rows, columns) if keep else a.new_empty(0)
    groups = columns // FP4_BLOCK
    scales = {
        "token": lambda: a.new_empty(rows, 1, dtype=torch.float32),
        "static": lambda: a.new_empty(0, dtype=torch.float32),
        "block": lambda: a.new_empty(rows, -(-columns // FP8_BLOCK), dtype=torch.float32),
        "nvfp4": lambda: a.new_empty(rows, groups, dtype=torch.float8_e4m3fn),
        "nvfp4_swizzled": lambda: a.new_empty(swizzled_size(rows, groups), dtype=torch.float8_e4m3fn),
    }[target]()
    if target.startswith("nvfp4"):
        return a.new_empty(rows, columns // 2, dtype=torch.uint8), scales, added, kept
    return a.new_empty(rows, columns, dtype=torch.float8_e4m3fn), scales, added, kept


def _check_columns(columns: int, target: str) -> None:
    if target.startswith("nvfp4") and columns % FP4_BLOCK:
        raise UsageError(f"NVFP4 has blocks of {FP4_BLOCK} columns, but a row has {columns}")


quant_rows_op = register("quant_rows", torch_form=_torch_form, launch=_launch, fake=_fake)
"""quant_rows_op(a, b, weight, eps, kind, target, factor, pre, keep) -> (codes, scales, added, kept)

a and b `[M, H, D]` of one dtype, contiguous in their last dimension, H = 1 where there are no heads; b is the residual
or the gate or None. weight fp32: of the norms, with `gated_norm` `[D]`. kind: plain, norm, add_norm, gated_norm,
silu_mul or sigmoid_mul.
"""
