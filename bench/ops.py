"""How fast is every op of the engine on this device, against its definition and the memory's bandwidth?

    python bench/ops.py                          CPU, the shapes of ocria-nano
    python bench/ops.py --device cuda            kernels at the shapes of the 4B model
    python bench/ops.py --only replay --rows 1 16

First every form is compared with the op's definition, outputs and state; one that differs gets no speed and the exit
code is 1. Then the forms run in turns. The last line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

COLD = {"cpu": 64 << 20, "cuda": 256 << 20}
"""Calls go round copies of the arguments that together take this many bytes, beyond the last cache: in a step every
layer has its own state and weights."""
MOST_COPIES = 64
TOLERANCE = {
    "cpu": {torch.float32: 5e-5, torch.bfloat16: 2e-2, torch.float8_e4m3fn: 0.08},
    "cuda": {torch.float32: 2e-3, torch.bfloat16: 2e-2, torch.float8_e4m3fn: 0.08},
}
"""Greatest difference to the definition over the greatest value of a tensor. fp32 on the CPU: other orders of sums, and
exp of a log-sum of a whole vocabulary, of which one rounding is 1e-6 to begin with; on CUDA products may be of TF32
(2^-11). bf16: outputs and stored deltas are rounded (2^-9) and the rounded ones used again. FP8: the next code, where
another order of sums crosses a border."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    from op_cases import CASES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", choices=["nano", "4b"], help="default nano on the CPU, 4b on CUDA")
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="OP", default=list(CASES))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8], metavar="T", help="rows of a step per request")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--compile", action="store_true", help="the torch form through Inductor as well")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def workload(arguments: argparse.Namespace, rows: int):
    """The step to be measured: a ring half full, a cache of 4096 rows (nano: 256), prompts of 1024 (nano: 128)."""
    from op_cases import Workload
    from roofline import config_4b

    from ocria.document.reader import NANO
    from ocria.model.config import ModelConfig

    large = arguments.shape == "4b"
    config = config_4b() if large else ModelConfig.from_file(NANO / "config.json")
    ring = max(16, 1 << (4 * rows - 1).bit_length())
    return Workload(
        config.text, arguments.batch, rows, 4096 if large else 256, 1024 if large else 128, ring, ring // 4,
        torch.bfloat16 if arguments.device == "cuda" else torch.float32,
        torch.Generator().manual_seed(arguments.seed),
    )  # fmt: skip


def copied(arguments: tuple, device: str) -> tuple:
    """The arguments on the device, every tensor a copy with its strides."""
    return tuple(
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).copy_(x)
        if isinstance(x, torch.Tensor) else x
        for x in arguments
    )  # fmt: skip


def tensors(values: Any) -> list[torch.Tensor]:
    """All tensors of a result or of arguments."""
    values = values if isinstance(values, (tuple, list)) else (values,)
    return [value for value in values if isinstance(value, torch.Tensor)]


def difference(found: list[torch.Tensor], expected: list[torch.Tensor], allowed: dict) -> tuple[float, float]:
    """Of the pair of tensors that differs most for what is allowed: greatest difference over greatest value, and what
    is allowed. Infinite where integers, shapes, dtypes or NaNs differ."""
    worst = (0.0, min(allowed.values()))
    for a, b in zip(found, expected, strict=True):
        a = a.cpu()
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf"), worst[1]
        if not a.is_floating_point():
            pair = (0.0 if torch.equal(a, b) else float("inf"), worst[1])
        elif b.numel():
            gap = float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30))
            pair = (float("inf") if math.isnan(gap) else gap, allowed[a.dtype])
        worst = max(worst, pair, key=lambda error: error[0] / error[1])
    return worst


def forms(case, device: str, compiled: bool) -> dict[str, Callable]:
    """The forms of an op that run on the device."""
    found = {}
    if device == "cuda":
        found["kernel"] = case.op.kernel
    if device == "cpu" or case.torch_on_cuda:
        found["torch"] = case.op.torch_form
        if compiled:
            found["inductor"] = torch.compile(case.op.torch_form, fullgraph=True, dynamic=False)
    return found


def outcome(function: Callable, arguments: tuple, device: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What a function returns, and what it leaves in its arguments, which are copied."""
    arguments = copied(arguments, device)
    return tensors(function(*arguments)), tensors(arguments)


def moved_bytes(case, outputs: list[torch.Tensor]) -> float:
    """What one call has to move: arguments that are no state, outputs, and the part of the state it touches."""
    read = [x for i, x in enumerate(case.arguments) if isinstance(x, torch.Tensor) and i not in case.state]
    return sum(x.nbytes for x in (*read, *outputs)) + case.state_bytes


class CpuTimer:
    """Seconds per call over a run of calls long enough for the clock."""

    method = "mean of at least 10 ms of calls by the wall clock"

    def __init__(self, form: Callable, copies: list[tuple]):
        self.form, self.copies, self.calls = form, copies, len(copies)
        self()  # warm-up
        while self() * self.calls < 0.01:
            self.calls *= 2

    def __call__(self) -> float:
        start = time.perf_counter()
        for i in range(self.calls):
            self.form(*self.copies[i % len(self.copies)])
        return (time.perf_counter() - start) / self.calls


class CudaTimer:
    """Seconds per call inside one CUDA graph of many calls, by events."""

    method = "one CUDA graph of a call for each copy, replayed, by CUDA events"

    def __init__(self, form: Callable, copies: list[tuple]):
        self.calls = len(copies)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                form(*copies[0])  # compiles the kernel
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for arguments in copies:
                form(*arguments)
        self()

    def __call__(self) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000 / self.calls


TIMERS = {"cpu": CpuTimer, "cuda": CudaTimer}


def measure(
    functions: dict[str, Callable], arguments: tuple, device: str, repeats: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds per call of each, `repeats` of them, taken in turns in alternating order; and why others have none."""
    size = max(1, sum(x.nbytes for x in tensors(arguments)))
    copies = [copied(arguments, device) for _ in range(min(MOST_COPIES, 1 + COLD[device] // size))]
    timers, failures = {}, {}
    for name, function in functions.items():
        try:
            timers[name] = TIMERS[device](function, copies)
        except RuntimeError as error:  # not every torch form can be captured in a graph
            failures[name] = str(error).partition("\n")[0]
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    for repeat in range(repeats):
        for name in list(timers) if repeat % 2 == 0 else list(timers)[::-1]:
            seconds[name].append(timers[name]())
    return seconds, failures


def bandwidth(device: str, repeats: int = 5) -> float:
    """Bytes per second of copying a large tensor, read and write counted."""
    source = torch.zeros((1 << 30 if device == "cuda" else 1 << 27) // 4, device=device)
    target = torch.empty_like(source)
    timer = TIMERS[device](lambda a, b: a.copy_(b), [(target, source)])
    return 2 * source.nbytes / median(timer() for _ in range(repeats))


def data_sheet(device: str) -> tuple[str, float | None]:
    """Name of the device, and the bytes per second its maker states, where known here."""
    from roofline import DEVICES

    if device == "cpu":
        return platform.processor() or platform.machine(), None
    name = torch.cuda.get_device_name()
    return name, next((known.bandwidth for known in DEVICES.values() if known.name in name.split()), None)


def report(case, arguments: argparse.Namespace, limit: float) -> dict:
    """Compare, then measure; a row of the table."""
    functions = forms(case, arguments.device, arguments.compile)
    outputs, left = outcome(case.definition, case.arguments, "cpu")
    wrong = {}
    for name, form in functions.items():
        found = outcome(form, case.arguments, arguments.device)
        wrong[name] = difference([*found[0], *found[1]], [*outputs, *left], TOLERANCE[arguments.device])
    row = {"case": case.name, "errors": wrong}
    if any(error > allowed for error, allowed in wrong.values()):
        return row | {"correct": False}
    moved = moved_bytes(case, outputs)
    functions |= {rival.name: rival.call for rival in case.rivals}
    if arguments.device == "cpu" and case.definition is not case.op.torch_form:
        functions["definition"] = case.definition
    seconds, failures = measure(functions, case.arguments, arguments.device, arguments.repeats)
    speeds = {
        name: {"seconds": median(times), "least": min(times), "most": max(times)} for name, times in seconds.items()
    }
    for name in wrong.keys() & speeds.keys():
        speeds[name]["of_limit"] = moved / speeds[name]["seconds"] / limit
    notes = {rival.name: rival.note for rival in case.rivals}
    return row | {"correct": True, "bytes": moved, "forms": speeds, "not_timed": failures, "rivals": notes}


def print_row(row: dict) -> None:
    if not row["correct"]:
        for name, (error, allowed) in row["errors"].items():
            word = "WRONG" if error > allowed else "right"
            print(f"{row['case']:<24} {name:<12} error {error:.1e}, allowed {allowed:.0e}: {word}, no speed")
        return
    for name, speed in row["forms"].items():
        spread = f"{speed['least'] * 1e6:.1f}–{speed['most'] * 1e6:.1f}"
        share = f"{speed['of_limit']:>6.1%}" if "of_limit" in speed else f"{'':>6}"
        error = f"{row['errors'][name][0]:.0e}" if name in row["errors"] else ""
        times = f"{speed['seconds'] * 1e6:>10.1f} {spread:>18}"
        print(f"{row['case']:<24} {name:<12} {row['bytes'] / 1e6:>9.3f} {times} {share} {error:>7}")
    for name, reason in row["not_timed"].items():
        print(f"{row['case']:<24} {name:<12} no speed: {reason}")


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    arguments.shape = arguments.shape or ("4b" if arguments.device == "cuda" else "nano")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("ops: torch sees no CUDA device", file=sys.stderr)
        return 2
    torch.set_num_threads(arguments.threads)
    with torch.inference_mode():
        return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    """Measure all cases that were asked for and print. Returns the exit code."""
    from op_cases import CASES

    name, stated = data_sheet(arguments.device)
    limit = bandwidth(arguments.device)
    sheet = f"; its data sheet says {stated / 1e12:g} TB/s" if stated else ""
    how = [
        f"{name}, torch {torch.__version__}, shapes of {arguments.shape}, batch {arguments.batch}, seed "
        f"{arguments.seed}; {arguments.threads} of {os.cpu_count()} cores.",
        f"Time of a call: {TIMERS[arguments.device].method}, over copies of the arguments of together "
        f"{COLD[arguments.device] >> 20} MiB, {MOST_COPIES} copies at most; forms in turns, {arguments.repeats} "
        "repeats, medians.",
        f"The limit is copying a large tensor on this device: {limit / 1e9:.1f} GB/s, read and write{sheet}.",
    ]
    print("\n".join(how) + "\n")
    print(f"{'case':<24} {'form':<12} {'MB':>9} {'µs':>10} {'spread':>18} {'limit':>6} {'error':>7}")
    rows = []
    for size in arguments.rows:
        for op in arguments.only:
            if op == "chunk" and size != arguments.rows[0]:
                continue  # a prefill has no rows per step
            for case in CASES[op](workload(arguments, size)):
                rows.append(report(case, arguments, limit))
                print_row(rows[-1])
    notes = {(row["case"].split()[0], *note) for row in rows if row["correct"] for note in row["rivals"].items()}
    print("\n" + "\n".join(f"{op}, {name}: {note}" for op, name, note in sorted(notes)))
    correct = all(row["correct"] for row in rows)
    document = {"bench": "ops", "device": name, "method": how, "bandwidth": limit, "data_sheet": stated}
    print(json.dumps({**document, "correct": correct, "cases": rows}))
    return 0 if correct and not any("kernel" in row["not_timed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
