"""What follows the sums of a quantised product: scales of rows and columns, bias, rounding; and the sum of its parts.

Where a product has few outputs, several programs share the columns K of one tile and leave parts behind. They are added
in their order, so a result is the same every time. How K is shared depends on the weight alone.
"""

import torch
import triton
import triton.language as tl

from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap

MOST_SHARED_ROWS = 64
"""Most rows of a product whose columns are shared: with more rows there are tiles enough."""
_PROGRAMS = 264  # two for each multiprocessor of a Hopper
_COLUMNS = 256


@triton.jit
def finished(
    acc, m, n, real_m, real_n, row_scale, column_scale, bias,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """fp32 sums `acc` of rows m and outputs n, which broadcast, with scales and bias; real_m, real_n: those there are.

    BY_ROW and BY_COLUMN: 0 without a scale, 1 with one of all, 2 with one of each.
    """
    if BY_COLUMN == 1:
        acc *= tl.load(column_scale)
    if BY_COLUMN == 2:
        acc *= tl.load(column_scale + n, real_n, 0.0)
    if BY_ROW == 1:
        acc *= tl.load(row_scale)
    if BY_ROW == 2:
        acc *= tl.load(row_scale + m, real_m, 0.0)
    if HAS_BIAS:
        acc += tl.load(bias + n, real_n, 0.0).to(tl.float32)
    return acc


@triton.jit
def join_parts_kernel(
    parts, row_scale, column_scale, bias, out, rows,
    N: tl.constexpr, PARTS: tl.constexpr, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, HAS_BIAS: tl.constexpr,
    COLUMNS: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (parts of a row, rows). parts fp32 `[PARTS, rows, N]`."""
    m = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    real = n < N
    acc = tl.zeros([COLUMNS], tl.float32)
    for part in tl.static_range(PARTS):
        acc += tl.load(parts + (part * rows + m) * N + n, real, 0.0)
    acc = finished(acc, m, n, m < rows, real, row_scale, column_scale, bias, BY_ROW, BY_COLUMN, HAS_BIAS)
    tl.store(out + m * N + n, rounded(acc, out.dtype.element_ty, INTERPRETED), real)


def tile_rows(rows: int) -> int:
    """Rows of a tile. By comparisons alone: `torch.compile` may know `rows` as a symbol only."""
    return 16 if rows <= 16 else 32 if rows <= 32 else 64 if rows <= 64 else 128


def share(rows: int, outputs: int, block: int, steps: int) -> int:
    """In how many parts the `steps` of K are computed, for tiles of `block` outputs."""
    if rows > MOST_SHARED_ROWS:
        return 1
    wanted = min(8, _PROGRAMS // triton.cdiv(outputs, block), steps // 2)
    return 1 << (wanted.bit_length() - 1) if wanted > 1 else 1


def parts_of(x: torch.Tensor, parts: int, rows: int, outputs: int) -> torch.Tensor:
    """The memory for parts, and next to none where there is one."""
    return x.new_empty((parts, rows, outputs) if parts > 1 else (1,), dtype=torch.float32)


def launch_join(parts, row_scale, column_scale, bias, out, constants) -> None:
    """Add the parts `[P, M, N]` into `out` `[M, N]`. constants: BY_ROW, BY_COLUMN and HAS_BIAS of the product."""
    count, rows, outputs = parts.shape
    wrap(join_parts_kernel)[(triton.cdiv(outputs, _COLUMNS), rows)](
        parts, row_scale, column_scale, bias, out, rows,
        N=outputs, PARTS=count, **constants, COLUMNS=_COLUMNS, INTERPRETED=INTERPRETED, num_warps=2,
    )  # fmt: skip


def scale_kinds(row_scale: torch.Tensor | None, column_scale: torch.Tensor | None, bias: torch.Tensor | None) -> dict:
    """The constants BY_ROW, BY_COLUMN and HAS_BIAS of `finished`."""
    kinds = {"BY_ROW": row_scale, "BY_COLUMN": column_scale}
    constants = {name: 0 if scale is None else 1 + (scale.numel() > 1) for name, scale in kinds.items()}
    return constants | {"HAS_BIAS": bias is not None}


def aot_variants() -> list[AotVariant]:
    """The down projection of the 4B model in bf16."""
    constants = {"N": SHAPES_4B.hidden, "PARTS": 4, "COLUMNS": _COLUMNS, "INTERPRETED": False}
    signature = dict.fromkeys(("parts", "row_scale", "column_scale"), "*fp32") | {"bias": "*bf16", "out": "*bf16"}
    kinds = {"BY_ROW": 2, "BY_COLUMN": 2, "HAS_BIAS": True}
    signature |= {"rows": "i32"}
    return [AotVariant("join parts", join_parts_kernel, signature, constants | kinds, num_warps=2)]
