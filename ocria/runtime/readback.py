"""The way of a step's output to the host.

A step is launched, its output starts on its way at once, and the host reads it when it needs it: with overlap, after
the next step has been launched, so that the device never waits for the host.
"""

from dataclasses import dataclass, fields
from typing import Protocol

import torch

from ocria.runtime.step import StepOutput


@dataclass(frozen=True, slots=True)
class HostOutput:
    """`StepOutput` as lists: tokens and probability `[B][T]`, emitted, drafted, accepted, source and reason `[B]`."""

    tokens: list[list[int]]
    probability: list[list[float]]
    emitted: list[int]
    drafted: list[int]
    accepted: list[int]
    source: list[int]
    reason: list[int]


class Pending(Protocol):
    """An output on its way."""

    def read(self) -> HostOutput:
        """Wait for it."""


class Readback(Protocol):
    """A way to the host, by kind of device."""

    def start(self, output: StepOutput) -> Pending:
        """Send an output that has just been launched."""


class HostReadback:
    """The output is in main memory already."""

    def start(self, output: StepOutput) -> Pending:
        return _OnHost(output)


class CudaReadback:
    """Through pinned memory. Every output gets buffers of its own, so the next step may overwrite the device's, and
    no copy in flight is written to; torch's allocator of pinned memory hands them out again when they are free."""

    def start(self, output: StepOutput) -> Pending:
        parts = tuple(getattr(output, field.name) for field in fields(StepOutput))
        copies = [torch.empty(part.shape, dtype=part.dtype, pin_memory=True) for part in parts]
        for copy, part in zip(copies, parts, strict=True):
            copy.copy_(part, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return _OnDevice(StepOutput(*copies), event)


@dataclass(frozen=True, slots=True)
class _OnHost:
    output: StepOutput

    def read(self) -> HostOutput:
        return _listed(self.output)


@dataclass(frozen=True, slots=True)
class _OnDevice:
    copies: StepOutput
    event: torch.cuda.Event

    def read(self) -> HostOutput:
        self.event.synchronize()
        return _listed(self.copies)


def readback_for(device: torch.device) -> Readback:
    return CudaReadback() if device.type == "cuda" else HostReadback()


def _listed(output: StepOutput) -> HostOutput:
    return HostOutput(*(getattr(output, field.name).tolist() for field in fields(StepOutput)))
