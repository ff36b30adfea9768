"""What options come to on a device; nothing that was asked for is left out silently."""

from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from ocria.errors import UsageError
from ocria.runtime.options import RINGS, EngineOptions, ResolvedOptions, quantises, resolve

CPU, CUDA = torch.device("cpu"), torch.device("cuda:1")


@pytest.mark.parametrize(
    "name",
    ["max_batch", "prefill_rows", "encoder_patches", "max_len", "memory_bytes", "admit_group", "graph_memory_bytes"],
)
def test_sizes_are_at_least_one(name):
    with pytest.raises(UsageError, match=name):
        EngineOptions(**{name: 0})


@pytest.mark.parametrize("ring", [-1, 1, 3, 24, 256])
def test_rings_are_powers_of_two_within_bounds(ring):
    with pytest.raises(UsageError, match="ring"):
        EngineOptions(ring=ring)


@pytest.mark.parametrize(
    ("name", "value"), [("draft_rows", 65), ("draft_rows", 0), ("verify", "loosely"), ("activations", "quantized")]
)
def test_what_drafts_cannot_be_told_is_refused(name, value):
    with pytest.raises(UsageError, match=name):
        EngineOptions(**{name: value})


def test_defaults_follow_the_device():
    on_cpu, on_cuda = resolve(EngineOptions(), CPU), resolve(EngineOptions(), CUDA)
    assert (on_cpu.graph, on_cpu.overlap, on_cpu.ring, on_cpu.graph_memory_bytes) == (False, False, 0, 0)
    assert (on_cuda.graph, on_cuda.overlap, on_cuda.ring) == (True, True, 16)
    assert on_cuda.graph_memory_bytes > 0
    assert not on_cpu.compile
    assert not on_cuda.compile


@pytest.mark.parametrize("device", [CPU, CUDA])
@pytest.mark.parametrize("lever", [{"compile": True}, {"overlap": True}, {"overlap": False}, {"ring": 0}, {"ring": 64}])
def test_what_is_asked_for_is_done(device, lever):
    resolved = resolve(EngineOptions(**lever), device)
    assert {name: getattr(resolved, name) for name in lever} == lever


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_a_drafter_needs_a_ring(device):
    rings = {rows: resolve(EngineOptions(), device, rows).ring for rows in (2, 5, 8, 9, 16)}
    of_two = {2: 16, 5: 16, 8: 16, 9: 32, 16: 32}
    of_four = {2: 16, 5: 32, 8: 32, 9: 64, 16: 64}
    assert rings == (of_two if device is CPU else of_four)
    for ring in (0, 8):
        with pytest.raises(UsageError, match=f"ring of {ring} rows is too small for steps of 5"):
            resolve(EngineOptions(ring=ring), device, 5)
    assert resolve(EngineOptions(ring=16), device, 8).rows == 8


def test_graphs_are_switched_off_alone_and_refused_where_there_are_none():
    off = resolve(EngineOptions(graph=False), CUDA)
    assert (off.graph, off.overlap, off.graph_memory_bytes) == (False, True, 0)
    with pytest.raises(UsageError, match="no CUDA graphs on the device cpu"):
        resolve(EngineOptions(graph=True), CPU)


def test_nothing_is_mutated_and_nothing_lost():
    options = EngineOptions(max_batch=12, memory_bytes=5, prefill_rows=7, stream_interval_s=0.5, ring=RINGS[-1])
    resolved = resolve(options, CPU)
    assert options == EngineOptions(max_batch=12, memory_bytes=5, prefill_rows=7, stream_interval_s=0.5, ring=RINGS[-1])
    names = {field.name for field in fields(EngineOptions)} - {"admit_group"}
    assert names <= {field.name for field in fields(ResolvedOptions)}
    for name in ("max_batch", "memory_bytes", "prefill_rows", "stream_interval_s", "ring"):
        assert getattr(resolved, name) == getattr(options, name)
    assert resolved.group == 3
    with pytest.raises(FrozenInstanceError):
        resolved.graph = True


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize(("choice", "device", "quantised"), [
    ("auto", CPU, False), ("auto", CUDA, True), ("full", CUDA, False), ("quantised", CPU, True),
])  # fmt: skip
def test_inputs_are_quantised_where_the_weights_say_so(choice, device, quantised, inputs):
    options = EngineOptions(activations=choice)
    assert quantises(options, device) == quantised
    resolved = resolve(options, device, inputs=inputs)
    told = "quantised" if quantised and inputs else "full"
    assert resolved.activations == told
    assert f"activations {told}" in resolved.levers()


def test_levers_are_told():
    text = resolve(EngineOptions(compile=True, graph=False, ring=32), CUDA).levers()
    assert text == "graph off, overlap on, compile on, ring 32, activations full, draft none"
    assert "ring off" in resolve(EngineOptions(), CPU).levers()
