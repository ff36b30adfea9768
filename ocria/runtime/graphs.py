"""Steps as CUDA graphs: one for each number of slots and kind of step, captured when first needed, within a budget."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ocria.runtime.step import StepInput, StepOutput

_WARM_UPS = 2
"""Eager runs before a capture: kernels compile and libraries allocate their workspaces in them."""


@dataclass(frozen=True, slots=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    slots: torch.Tensor
    output: StepOutput


class StepGraphs:
    """Replays a step with one launch.

    `run_step`: the step. The graphs share a pool; once they take more than `memory_bytes`, sizes that were not
    captured run eagerly. `kv_len`: what a captured step assumes, the most that a slot holds: its kernels read the real
    lengths on the device.
    """

    def __init__(self, run_step: Callable[[StepInput], StepOutput], memory_bytes: int, kv_len: int):
        self._step, self._memory_bytes, self._kv_len = run_step, memory_bytes, kv_len
        self._graphs: dict[tuple, _Graph | None] = {}
        self._pool = None
        self.captured_bytes = 0
        self.replays = self.eager = 0

    def run(self, inputs: StepInput) -> StepOutput:
        """One step, by its graph if there is one or room for one."""
        inputs = replace(inputs, kv_len=self._kv_len, first_slot=None)
        key = (len(inputs.slots), inputs.greedy, inputs.rows, inputs.network)
        if key not in self._graphs:
            self._graphs[key] = self._capture(inputs) if self.captured_bytes < self._memory_bytes else None
        graph = self._graphs[key]
        if graph is None:
            self.eager += 1
            return self._step(inputs)
        graph.slots.copy_(inputs.slots)
        graph.graph.replay()
        self.replays += 1
        return graph.output

    def _capture(self, inputs: StepInput) -> _Graph:
        """Record a step on the dummy slot, which changes nothing, then replay it for others."""
        static = torch.zeros_like(inputs.slots)
        rows = replace(inputs, slots=static)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._step(rows)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # entering a capture does so: what the warm-up left must not be in the difference
        before = torch.cuda.memory_reserved()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = self._step(rows)
        self._pool = graph.pool()
        self.captured_bytes += max(0, torch.cuda.memory_reserved() - before)
        return _Graph(graph, static, output)
