"""RMS norms in one launch each: the kernels of `ocria.ops.norm`.

A program normalises whole rows, several where they are short, so a row's result does not depend on its neighbours.
"""

import torch
import triton
import triton.language as tl

from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap


@triton.jit
def rms_norm_kernel(
    x, residual, scale, out, added, x_stride, x_stride_inner, residual_stride, residual_stride_inner, rows, inner,
    EPS: tl.constexpr, D: tl.constexpr, ADD: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of rows,). With ADD, the norm of x + residual, which goes to `added`."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    d = tl.arange(0, BLOCK_D)
    real = (row < rows)[:, None] & (d < D)[None, :]
    at = row[:, None] * D + d[None, :]
    source = (row // inner * x_stride + row % inner * x_stride_inner)[:, None] + d[None, :]
    values = tl.load(x + source, real, 0.0).to(tl.float32)
    if ADD:
        source = (row // inner * residual_stride + row % inner * residual_stride_inner)[:, None] + d[None, :]
        values += tl.load(residual + source, real, 0.0).to(tl.float32)
        summed = rounded(values, added.dtype.element_ty, INTERPRETED)
        tl.store(added + at, summed, real)
        values = summed.to(tl.float32)
    values *= tl.rsqrt(tl.sum(values * values, 1) / D + EPS)[:, None]
    values *= tl.load(scale + d, d < D, 0.0)[None, :]
    tl.store(out + at, rounded(values, out.dtype.element_ty, INTERPRETED), real)


@triton.jit
def gated_rms_norm_kernel(
    x, gate, weight, out, x_stride, x_stride_inner, gate_stride, gate_stride_inner, rows, inner,
    EPS: tl.constexpr, D: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_D: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of rows,)."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    d = tl.arange(0, BLOCK_D)
    real = (row < rows)[:, None] & (d < D)[None, :]
    source = (row // inner * x_stride + row % inner * x_stride_inner)[:, None] + d[None, :]
    values = tl.load(x + source, real, 0.0).to(tl.float32)
    values *= tl.rsqrt(tl.sum(values * values, 1) / D + EPS)[:, None]
    values = rounded(values, out.dtype.element_ty, INTERPRETED).to(tl.float32)
    values *= tl.load(weight + d, d < D, 0.0)[None, :]
    source = (row // inner * gate_stride + row % inner * gate_stride_inner)[:, None] + d[None, :]
    opening = tl.load(gate + source, real, 0.0).to(tl.float32)
    values *= opening / (1.0 + tl.exp(-opening))
    at = row[:, None] * D + d[None, :]
    tl.store(out + at, rounded(values, out.dtype.element_ty, INTERPRETED), real)


def launch_rms_norm(x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
    """As `ocria.ops.norm.rms_norm`."""
    out = x.new_empty(x.shape)
    source = _rows(x)
    _launch(rms_norm_kernel, (source, source), scale, (out, out), eps, ADD=False)
    return out


def launch_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `ocria.ops.norm.add_rms_norm`."""
    out, added = residual.new_empty(x.shape), residual.new_empty(x.shape)
    _launch(rms_norm_kernel, (_rows(x), _rows(residual)), scale, (out, added), eps, ADD=True)
    return out, added


def launch_gated_rms_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """As `ocria.ops.norm.gated_rms_norm`."""
    out = x.new_empty(x.shape)
    _launch(gated_rms_norm_kernel, (_rows(x), _rows(gate)), weight, (out,), eps)
    return out


def aot_variants() -> list[AotVariant]:
    """The norms of the 4B model in bf16, of inputs with any strides."""
    s = SHAPES_4B
    cases = {
        "rms_norm": (rms_norm_kernel, s.hidden, {"ADD": False}),
        "add_rms_norm": (rms_norm_kernel, s.hidden, {"ADD": True}),
        "gated_rms_norm": (gated_rms_norm_kernel, s.value_dim, {}),
    }
    variants = []
    for name, (kernel, size, flags) in cases.items():
        constants, warps = _tile(size)
        constants = {"EPS": 1e-6, "D": size, **constants, **flags, "INTERPRETED": False}
        arguments = [argument for argument in kernel.arg_names if argument not in constants]
        kinds = {"scale": "*fp32", "weight": "*fp32", "rows": "i32", "inner": "i32"}
        strides = {argument: "i32:16" for argument in arguments if "stride" in argument}
        signature = {argument: (kinds | strides).get(argument, "*bf16") for argument in arguments}
        variants.append(AotVariant(name, kernel, signature, constants, num_warps=warps))
    return variants


def _launch(kernel, sources, scale, results, eps, **flags):
    size, inner = sources[0].shape[2], sources[0].shape[1]
    rows = sources[0].shape[0] * inner
    constants, warps = _tile(size)
    strides = [stride for source in sources for stride in source.stride()[:2]]
    wrap(kernel)[(triton.cdiv(rows, constants["BLOCK_ROWS"]),)](
        *sources, scale, *results, *strides, rows, inner,
        EPS=eps, D=size, **flags, **constants, INTERPRETED=INTERPRETED, num_warps=warps,
    )  # fmt: skip


def _tile(size: int) -> tuple[dict[str, int], int]:
    """Rows and columns of a program, and its warps."""
    columns = triton.next_power_of_2(size)
    return {"BLOCK_ROWS": max(1, 1024 // columns), "BLOCK_D": columns}, 8 if columns > 2048 else 4


def _rows(x: torch.Tensor) -> torch.Tensor:
    """`[..., D]` as `[outer, inner, D]`: a view of a part of a wider tensor where that is possible."""
    x = x.reshape(-1, x.shape[-2] if x.dim() > 1 else 1, x.shape[-1])
    return x if x.stride(-1) == 1 else x.contiguous()
