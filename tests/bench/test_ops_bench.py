"""The op bench: every op has cases that its torch form and its kernel get right, wrong forms get no speed."""

import importlib
import json
import pkgutil
from pathlib import Path

import op_cases
import ops
import pytest
import torch

import ocria.ops
from ocria.model.config import TextConfig
from ocria.ops.register import INTERPRETED, Op

# Odd sizes, grouped heads; head sizes that the kernels take.
CONFIG = TextConfig(
    vocab_size=301, hidden_size=96, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, layer_types=("linear_attention", "full_attention"), linear_num_key_heads=2,
    linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=32, partial_rotary_factor=0.5,
    mrope_section=(3, 3, 2),
)  # fmt: skip


def small(rows: int) -> op_cases.Workload:
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    return op_cases.Workload(CONFIG, 3, rows, 37, 70, 16, 5, torch.float32, torch.Generator().manual_seed(seed))


def cases(rows: int) -> list[op_cases.Case]:
    return [case for make in op_cases.CASES.values() for case in make(small(rows))]


def test_every_op_has_a_case_and_a_line_in_the_documentation():
    modules = [importlib.import_module(f"ocria.ops.{m.name}") for m in pkgutil.iter_modules(ocria.ops.__path__)]
    registered = {value.name for module in modules for value in vars(module).values() if isinstance(value, Op)}
    assert {case.op.name for case in cases(2)} == registered
    document = (Path(__file__).resolve().parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert {name for name in registered if f"`{name}`" not in document} == set()


@pytest.mark.parametrize("rows", [1, 5])
@torch.inference_mode()
def test_every_form_is_right(rows):
    for case in cases(rows):
        found = ops.forms(case, "cpu", False)
        if INTERPRETED:
            found["kernel"] = case.op.kernel
        outputs, left = ops.outcome(case.definition, case.arguments, "cpu")
        for name, form in found.items():
            results = ops.outcome(form, case.arguments, "cpu")
            error, allowed = ops.difference([*results[0], *results[1]], [*outputs, *left], ops.TOLERANCE["cpu"])
            assert error <= allowed, (case.name, name)
        assert ops.moved_bytes(case, outputs) > 0
        for rival in case.rivals:
            rival.call(*ops.copied(case.arguments, "cpu"))


@torch.inference_mode()
def test_bytes_counted_by_hand():
    found = {case.name: case for case in cases(2)}
    state, row = 4 * 16 * 32 * 4, (2 * 16 * 4, 4 * 32 * 4, 4 * 32 * 4, 2 * 4 * 4)
    inputs = 3 * 2 * (2 * 2 * 16 + 4 * 32 + 2 * 4) * 4 + 3 * (4 * 8 + 1)
    outputs = 3 * 2 * 4 * 32 * 4
    appended = 2 * sum(row)
    for name, moved in {
        "replay T=2 P=5": state + 5 * (row[0] + row[2] + row[3] // 2) + appended,
        "replay T=2 P=5 fold": 2 * state + 5 * (row[0] + row[1] + row[3]) + appended,
    }.items():
        case = found[name]
        assert ops.moved_bytes(case, ops.outcome(case.definition, case.arguments, "cpu")[0]) == (
            inputs + outputs + 3 * moved
        ), name


def test_difference():
    allowed = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
    x = torch.tensor([3.0, -4.0])
    assert ops.difference([x], [x.clone()], allowed)[0] == 0
    error, limit = ops.difference([x, x.bfloat16()], [x + 0.04, x.bfloat16() * 0.75], allowed)
    assert (error, limit) == (pytest.approx(0.04 / 3.96, rel=1e-3), 1e-5)  # less, but far less is allowed
    for other in (x.double(), x[:1], torch.tensor([3.0, float("nan")])):
        assert ops.difference([x], [other], allowed)[0] == float("inf")
    assert ops.difference([torch.tensor([1, 2])], [torch.tensor([1, 3])], allowed)[0] == float("inf")


def test_output(capsys):
    assert ops.main(["--only", "norm", "conv", "--rows", "1", "--batch", "2", "--repeats", "2"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    assert document["correct"] is True
    names = {row["case"]: set(row["forms"]) for row in document["cases"]}
    assert names["rms_norm rows=2"] == {"torch", "functional", "definition"}
    assert names["gated_conv T=1"] == {"torch", "definition"}
    for row in document["cases"]:
        assert row["forms"]["torch"]["least"] <= row["forms"]["torch"]["seconds"] <= row["forms"]["torch"]["most"]
        share = row["bytes"] / row["forms"]["torch"]["seconds"] / document["bandwidth"]
        assert row["forms"]["torch"]["of_limit"] == pytest.approx(share)


def test_a_wrong_form_gets_no_speed(monkeypatch, capsys):
    from ocria.ops.norm import gated_rms_norm_op

    right = gated_rms_norm_op.torch_form
    monkeypatch.setattr(gated_rms_norm_op, "torch_form", lambda *a: right(*a) * (1 + 1e-4))
    assert ops.main(["--only", "norm", "--rows", "1", "--batch", "2", "--repeats", "1"]) == 1
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    assert document["correct"] is False
    wrong = {row["case"]: row for row in document["cases"] if not row["correct"]}
    assert list(wrong) == ["gated_rms_norm rows=2"]
    assert "forms" not in wrong["gated_rms_norm rows=2"]
    assert "WRONG, no speed" in out


def test_state_written_wrongly_is_seen(monkeypatch):
    """Outputs alone would not show it."""
    from ocria.ops.conv import gated_conv

    (case,) = op_cases.conv_cases(small(2))

    def forgets(*arguments):
        before = arguments[6].clone()
        result = gated_conv.torch_form(*arguments)
        arguments[6].copy_(before)
        return result

    with torch.inference_mode():
        expected = ops.outcome(case.definition, case.arguments, "cpu")
        found = ops.outcome(forgets, case.arguments, "cpu")
    assert ops.difference(found[0], expected[0], ops.TOLERANCE["cpu"])[0] < 1e-5
    assert ops.difference(found[1], expected[1], ops.TOLERANCE["cpu"])[0] > 0.1


def test_forms_take_turns(monkeypatch):
    order = []

    class Timer:
        def __init__(self, form, copies):
            form(*copies[0])
            self.form = form

        def __call__(self):
            order.append(self.form)
            return 1.0

    def fails(x):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setitem(ops.TIMERS, "cpu", Timer)
    functions = {"sum": torch.sum, "max": torch.max, "fails": fails}
    seconds, failures = ops.measure(functions, (torch.zeros(1000),), "cpu", 3)
    assert order == [torch.sum, torch.max, torch.max, torch.sum, torch.sum, torch.max]
    assert seconds == {"sum": [1.0] * 3, "max": [1.0] * 3}
    assert failures == {"fails": "operation not permitted when stream is capturing"}


def test_no_gpu_is_said(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert ops.main(["--device", "cuda"]) == 2
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu(capsys):
    assert ops.main(["--device", "cuda", "--shape", "nano", "--rows", "1", "8", "--repeats", "2"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all("kernel" in row["forms"] for row in document["cases"])
