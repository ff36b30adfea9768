"""Every kernel on a GPU at the shapes of the 4B model in bf16, against the op's definition on the CPU: full windows,
and ragged ones in which requests use fewer rows, or none, after histories of any length, beside rows of NaN."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import op_cases
import ops
from roofline import config_4b

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
BATCH, SEEN, PROMPT = 5, 700, 150
"""Not a multiple of any tile; several parts of the keys, and chunks, a request."""


@pytest.fixture
def generator():
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)


def workload(generator, rows, config=None):
    config = config or config_4b().text
    ring = max(16, 1 << (4 * rows - 1).bit_length())
    return op_cases.Workload(config, BATCH, rows, SEEN, PROMPT, ring, ring // 4, torch.bfloat16, generator)


def check(case):
    """Outputs and what is left in the arguments. For the tolerance see `bench/ops.py`."""
    expected = ops.outcome(case.definition, case.arguments, "cpu")
    found = ops.outcome(case.op.kernel, case.arguments, DEVICE)
    for which, a, b in zip(("outputs", "state"), found, expected, strict=True):
        # Inputs that hold NaN are the same on both sides and not looked at.
        pairs = [(x, y) for x, y in zip(a, b, strict=True) if not (y.is_floating_point() and y.isnan().any())]
        error, allowed = ops.difference(*map(list, zip(*pairs, strict=True)), ops.TOLERANCE["cuda"])
        print(f"{case.name} {which}: {error:.1e} of {allowed:.0e}")
        assert error <= allowed, (case.name, which)


def ragged(case, generator):
    """The same call in which request b uses count[b] rows, the first one none and one of them all; None for an op
    whose calls are always full. Inputs of the rows beyond are NaN."""
    if case.op.name not in PLACES:
        return None
    inputs, place, history = PLACES[case.op.name]
    arguments = [x.clone() if isinstance(x, torch.Tensor) else x for x in case.arguments]
    rows = arguments[inputs[0]].shape[1]
    count = torch.randint(0, rows + 1, (BATCH,), generator=generator)
    count[0], count[1] = 0, rows
    arguments[place] = count
    if history:  # how many rows attention sees and the convolution has behind it
        at, most = history
        arguments[at] = torch.randint(0, most + 1, (BATCH,), generator=generator)
        arguments[at][1] = most
    beyond = torch.arange(rows) >= count[:, None]
    for index in inputs:
        arguments[index][beyond] = float("nan")
    return replace(case, name=f"{case.name} ragged", arguments=tuple(arguments))


PLACES = {
    "attend": ((0, 1, 2), 12, (11, SEEN)),
    "gated_conv": ((0, 1, 2), 9, (8, 100)),
    "replay": ((0, 1, 2, 3, 4), 13, None),
}
"""By op: which arguments are `[B, T, ...]`, where `count` is, and `length` with its largest value."""


@pytest.mark.parametrize("rows", [1, 8, 16])
@pytest.mark.parametrize("name", list(op_cases.CASES))
@torch.inference_mode()
def test_kernels_at_4b_shapes(generator, name, rows):
    if name == "chunk" and rows > 1:
        pytest.skip("a prefill has no rows per step")
    if name == "sample" and rows > 8:
        pytest.skip("rows of logits are independent, and the definition takes half a minute for 80 of them")
    for case in op_cases.CASES[name](workload(generator, rows)):
        check(case)
        other = ragged(case, generator)
        if other is not None:
            check(other)


@torch.inference_mode()
def test_prompts_of_any_length(generator):
    """Segments with gaps between them: rows outside are zero."""
    (case,) = op_cases.CASES["chunk"](workload(generator, 1))
    arguments = list(case.arguments)
    count = torch.randint(1, PROMPT + 1, (BATCH,), generator=generator)
    count[0], count[1] = 1, PROMPT
    arguments[-1] = count
    check(replace(case, name="chunk ragged", arguments=tuple(arguments)))
