"""What this machine can do at most, and what a step has to do at least."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ocria.model.quantized import WeightBytes
from ocria.runtime.memory import network_bytes
from ocria.runtime.traffic import traffic_of

from .sides import Ocria, Seen, synchronise

LARGE = 1 << 28
"""Bytes that no cache of a CPU holds."""
CLOCKED_S = 0.2


@dataclass(frozen=True, slots=True)
class Machine:
    """Measured: bytes a second of a triad over as many bytes as a step of the model touches, and over more than any
    cache holds; operations a second of a large product."""

    bandwidth: float
    memory: float
    operations: float
    working_set: float

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"Measured limits: {self.bandwidth / 1e9:.1f} GB/s by a triad over {self.working_set / 1e6:.1f} MB, what a "
            f"plain step touches ({self.memory / 1e9:.1f} GB/s over {LARGE >> 20} MiB), and "
            f"{self.operations / 1e9:.0f} GFLOP/s by a large product; the best of some tries."
        ]


def measure_machine(device: str, dtype: torch.dtype, working_set: float) -> Machine:
    """working_set: bytes."""
    size = 1024 if device == "cpu" else 8192
    a, b = (torch.rand(size, size, dtype=torch.float32, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    fastest = _fastest(lambda: torch.mm(a, b, out=product), device)
    return Machine(_triad(working_set, device), _triad(LARGE, device), 2 * size**3 / fastest, working_set)


def _triad(size: float, device: str) -> float:
    """Bytes a second of c = a + 3 b over three buffers of `size` bytes together."""
    a, b, c = (torch.ones(max(1, int(size) // 12), device=device) for _ in range(3))
    return 3 * a.nbytes / _fastest(lambda: torch.add(a, b, alpha=3, out=c), device)


def _fastest(call: Callable[[], Any], device: str) -> float:
    call()
    best, until = float("inf"), time.perf_counter() + CLOCKED_S
    while time.perf_counter() < until:
        synchronise(device)
        began = time.perf_counter()
        call()
        synchronise(device)
        best = min(best, time.perf_counter() - began)
    return best


@dataclass(frozen=True, slots=True)
class Least:
    """bytes_per_step: mean. seconds: least that all steps can take, each bound by memory or by arithmetic. bound: by
    which most of them are."""

    bytes_per_step: float
    seconds: float
    bound: str


class StepCosts:
    """Bytes and operations of the steps of one engine.

    Bytes: weights, state, keys and values, each once (`ocria.runtime.traffic`); of a drafter's network its weights.
    Operations: two for each weight and row. Attention and the recurrence are left out of the operations, below a tenth
    for the embedded model.
    """

    def __init__(self, side: Ocria, snapshots: bool = False):
        engine = side.engine
        network, config = engine.network, engine.config
        device = network.device
        self.traffic = traffic_of(config, engine.options, network.dtype, device, network.weights)
        text = config.text
        table = 0 if config.tie_word_embeddings else text.vocab_size * text.hidden_size
        self.weights = network_bytes(config, network.dtype, encoder=False) // network.dtype.itemsize - table
        drafter = engine.worker.drafter
        networks = drafter.networks if drafter is not None else []
        stored = sum((one.weights for one in networks), WeightBytes())
        self.drafter = stored.plain + (stored.codes if device.type == "cuda" else stored.decoded)
        self.drafter_weights = (stored.plain + stored.decoded) // network.dtype.itemsize
        linear = text.layer_types.count("linear_attention")
        state = text.linear_num_value_heads * text.linear_key_head_dim * text.linear_value_head_dim * 4
        self._snapshot = linear * state if snapshots else 0

    def of(self, step: Seen) -> tuple[float, float]:
        """Bytes and operations of a step."""
        rows = step.batch * step.rows
        moved = self.traffic.of_step(step.batch, step.kv_rows) + rows * self._snapshot + step.network * self.drafter
        return moved, 2 * rows * (self.weights + step.network * self.drafter_weights)

    def least(self, steps: list[Seen], machine: Machine) -> Least:
        """Of all steps of a run."""
        both = [self.of(step) for step in steps]
        memory = sum(moved for moved, _ in both) / machine.bandwidth
        arithmetic = sum(operations for _, operations in both) / machine.operations
        seconds = sum(max(m / machine.bandwidth, o / machine.operations) for m, o in both)
        bound = "memory" if memory >= arithmetic else "arithmetic"
        return Least(sum(moved for moved, _ in both) / len(both), seconds, bound)
