"""Where the time of an engine's steps goes on the host: clocks at the seams of the engine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PARTS = {
    "plan": "the scheduler: who enters, whose prompt goes on, who decodes",
    "rows": "which rows the step has, and the records of them",
    "step": "the call that runs the step: on the CPU the step itself, on CUDA its launch",
    "readback": "starting the copy of the output, and making lists of it",
    "commit": "tokens into the records, guards, text, metrics",
    "other": "deadlines, memory, locks, emissions",
    "wait": "waiting for the device",
}
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
"""Calls that launch one kernel: of torch and its libraries, and of Triton."""
GRAPH_LAUNCHES = ("cudaGraphLaunch",)
COPIES = ("cudaMemcpyAsync", "cudaMemsetAsync")


class HostClock:
    """Clocks the steps of one engine. Every moment of a step belongs to one part, so the parts add up to the whole.

    Make it once the requests are in their slots: the seams are those of the state as it is allocated now.
    """

    def __init__(self, engine: Any):
        self.engine = engine
        self.steps: list[dict[str, float]] = []  # seconds of each step, by part
        self._stack: list[str] = []
        self._since = 0.0
        self._now = dict.fromkeys(PARTS, 0.0)
        worker = engine.worker
        seams = [
            (engine._scheduler, "plan", "plan"),
            (worker, "launch", "rows"),
            (worker.runner, "run", "step"),
            (engine, "_collect", "commit"),
        ]
        for owner, name, part in seams:
            setattr(owner, name, self._clocked(getattr(owner, name), part))
        worker.readback = _Readback(self, worker.readback)

    def step(self) -> list:
        """One step of the engine, clocked."""
        self._now = dict.fromkeys(PARTS, 0.0)
        emissions = self.call("other", self.engine.step)
        self.steps.append(self._now)
        return emissions

    def call(self, part: str, function: Callable, *arguments: Any) -> Any:
        """Call a function; its time belongs to `part`, but for what is clocked inside."""
        self._charge()
        self._stack.append(part)
        try:
            return function(*arguments)
        finally:
            self._charge()
            self._stack.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self._now[self._stack[-1]] += now - self._since
        self._since = now

    def _clocked(self, function: Callable, part: str) -> Callable:
        return lambda *arguments: self.call(part, function, *arguments)


class _Readback:
    def __init__(self, clock: HostClock, inner: Any):
        self.clock, self.inner = clock, inner

    def start(self, output: Any) -> Any:
        return _Pending(self.clock, self.clock.call("readback", self.inner.start, output))


class _Pending:
    def __init__(self, clock: HostClock, inner: Any):
        self.clock, self.inner = clock, inner

    def read(self) -> Any:
        event = getattr(self.inner, "event", None)  # only of an output on its way from a device
        if event is not None:
            self.clock.call("wait", event.synchronize)
        return self.clock.call("readback", self.inner.read)


def summary(steps: list[dict[str, float]], device: str) -> dict[str, float]:
    """Medians over the steps, in seconds: every part, `host` (what the host does around the step; the launch counts
    on CUDA, where the device computes) and `total`."""
    around = [part for part in PARTS if part != "wait" and (part != "step" or device == "cuda")]
    found = {part: median(step[part] for step in steps) for part in PARTS}
    found["host"] = median(sum(step[part] for part in around) for step in steps)
    found["total"] = median(sum(step.values()) for step in steps)
    return found


class Dispatched(TorchDispatchMode):
    """Names of the operations that reach the dispatcher."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def dispatched(engine: Any) -> dict[str, Any]:
    """Operations of one step of an engine whose requests all decode: around: those of the loop around the step;
    step: those of the step; ocria: those of them that are ours, by name."""
    runner = engine.worker.runner
    run, inside = runner.run, Dispatched()

    def counted(*arguments):
        with inside:
            return run(*arguments)

    runner.run = counted
    try:
        with Dispatched() as whole:
            engine.step()
    finally:
        runner.run = run
    ours = Counter(name.removesuffix(".default") for name in inside.names if name.startswith("ocria."))
    # Modes are nested: what the inner one sees goes on to the outer one.
    return {"around": len(whole.names) - len(inside.names), "step": len(inside.names), "ocria": dict(ours)}


def launches(engine: Any, steps: int) -> dict[str, float]:
    """What the host launches on the GPU in a step, by the profiler: mean over some steps."""
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            engine.step()
        torch.cuda.synchronize()
    return launch_counts(profile.key_averages(), steps)


def launch_counts(averages: Iterable[Any], steps: int) -> dict[str, float]:
    """Kernels, graphs and copies launched per step, from entries with `key` and `count`."""
    counts = Counter({entry.key: entry.count for entry in averages})
    kinds = {"kernels": LAUNCHES, "graphs": GRAPH_LAUNCHES, "copies": COPIES}
    return {kind: sum(counts[name] for name in names) / steps for kind, names in kinds.items()}


def device_seconds(engine: Any, steps: int) -> float:
    """Median seconds from the first to the last kernel of a step, gaps between them included, by CUDA events."""
    runner = engine.worker.runner
    run, spans = runner.run, []

    def between(*arguments):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        output = run(*arguments)
        end.record()
        spans.append((start, end))
        return output

    runner.run = between
    try:
        for _ in range(steps):
            engine.step()
    finally:
        runner.run = run
    torch.cuda.synchronize()
    return median(start.elapsed_time(end) for start, end in spans) / 1000
