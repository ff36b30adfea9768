"""The bytes that decoding moves, at shapes whose numbers are known."""

from dataclasses import replace

import pytest
import torch
from large_model import large_config

from ocria.runtime.options import EngineOptions, resolve
from ocria.runtime.traffic import Traffic, bandwidth, bandwidth_of, traffic_of

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MIB = 1 << 20


@pytest.fixture
def bandwidth_unknown(monkeypatch):
    from ocria.runtime import traffic

    monkeypatch.setattr(traffic, "bandwidth", lambda device: None)


@pytest.mark.usefixtures("bandwidth_unknown")
def test_the_4b_model_in_bf16():
    """8.40 GB of weights, 48 MiB of fp32 state a request, 32 KiB of keys and values a row."""
    plain = traffic_of(large_config(), resolve(EngineOptions(ring=0), CUDA), torch.bfloat16, CUDA)
    assert plain.step == pytest.approx(8.40e9, rel=0.01)
    assert plain.kv_row == 32 * 1024
    assert 2 * 48 * MIB <= plain.request < 98 * MIB, "read and written in every step"
    ring = traffic_of(large_config(), resolve(EngineOptions(ring=16), CUDA), torch.bfloat16, CUDA)
    assert (ring.step, ring.kv_row) == (plain.step, plain.kv_row)
    assert 48 * MIB < ring.request < 0.6 * plain.request


@pytest.mark.usefixtures("bandwidth_unknown")
def test_a_head_of_its_own_is_read_and_its_embeddings_are_not():
    options = resolve(EngineOptions(), CUDA)
    tied = traffic_of(large_config(), options, torch.bfloat16, CUDA)
    own = traffic_of(replace(large_config(), tie_word_embeddings=False), options, torch.bfloat16, CUDA)
    assert own.step == tied.step


def test_a_step_is_the_sum_of_its_parts(rng):
    weights, request, row, requests, rows = rng.integers(1, 10**6, 5).tolist()
    assert Traffic(weights, request, row).of_step(requests, rows) == weights + requests * request + rows * row


def test_bandwidths():
    assert bandwidth(CPU) is None
    assert bandwidth_of("NVIDIA H200") == 4.8e12
    assert bandwidth_of("NVIDIA B200") == 8.0e12
    assert bandwidth_of("NVIDIA GeForce RTX 4090") == 1.008e12
    assert bandwidth_of("NVIDIA T4") is None
