"""The compiled step: the same answers, each kind of layer compiled once, and nothing compiled again after a restart."""

import copy
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_model import CONFIG, random_weights

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.runtime.buffers import SlotBuffers, SlotEntry
from ocria.runtime.compiled import UNROLLED, cache_folder, compile_step
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.step import StepInput, step

HERE = Path(__file__).parent


def run_apart(tmp_path, seed):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(HERE)}
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        environment.pop(name, None)
    command = [sys.executable, str(HERE / "compile_twice.py"), str(tmp_path), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_compiled_equals_eager_and_a_restart_finds_it_in_the_cache(tmp_path, seed):
    first = run_apart(tmp_path, seed)
    assert first["compiled"] == first["eager"]
    assert len({tuple(tokens) for tokens in first["eager"]}) > 3
    assert first["misses"] == 2, "one graph for a single row, one for all other numbers of rows"
    assert first["folder"].startswith(str(tmp_path / "cache" / "ocria" / "compiled"))
    second = run_apart(tmp_path, seed)
    assert second["compiled"] == second["eager"] == first["eager"]
    assert (second["hits"], second["misses"]) == (2, 0)


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_any_number_of_rows_after_any_first_step(loaded, make_request, rng, monkeypatch, batch):
    """The traced graph takes all sizes, those that fill a tensor included, whichever comes first."""
    eager = functools.partial(compile_step, backend="eager")
    monkeypatch.setattr("ocria.runtime.compiled.compile_step", eager)
    requests = [make_request(i, max_tokens=int(rng.integers(1, 20))) for i in range(batch + 3)]
    alone = Engine(loaded, EngineOptions(max_batch=1))
    expected = [alone.run([request])[0].tokens for request in requests]
    engine = Engine(loaded, EngineOptions(max_batch=batch, compile=True, ring=int(rng.choice([0, 8]))))
    assert [result.tokens for result in engine.run(requests)] == expected
    assert [result.tokens for result in engine.run(requests[:1])] == expected[:1]


def deep(kinds):
    config = copy.deepcopy(CONFIG)
    config["text_config"] |= {"layer_types": kinds, "num_hidden_layers": len(kinds)}
    return ModelConfig.from_dict(config)


def test_each_kind_of_layer_is_compiled_once(seed):
    """What the compiler is given does not grow with the depth of the network."""
    sizes, results = {}, {}
    for repeats in (3, 5):
        torch._dynamo.reset()
        config = deep(["linear_attention", "linear_attention", "full_attention"] * repeats)
        assert config.text.num_hidden_layers > UNROLLED
        network = Qwen35(config).eval().requires_grad_(False)
        random_weights(network, seed)
        network.prepare(pack_bytes=0)
        state = DecoderState.allocate(config.text, 4, 16, torch.float32, ring=8)
        buffers = SlotBuffers.allocate(config.text, 4, 16, "cpu")
        with torch.inference_mode():
            rows = StepInput(torch.tensor([1, 2, 3]), 3, 1)
        graphs = []

        def keep(graph, inputs, graphs=graphs):
            graphs.append(graph)
            return graph.forward

        with torch.inference_mode():
            for compiled in (True, False):
                for tensor in state.tensors():
                    tensor.zero_()
                buffers.enter([SlotEntry(slot, 7, 2, 0, 5) for slot in (1, 2, 3)])
                run = compile_step(network, state, buffers, backend=keep) if compiled else None
                output = run(rows) if compiled else step(network, state, buffers, rows)
                results[repeats, compiled] = output.tokens, output.probability
        assert torch.equal(results[repeats, True][0], results[repeats, False][0])
        assert torch.allclose(results[repeats, True][1], results[repeats, False][1], atol=1e-5)
        (graph,) = graphs  # no graph breaks
        bodies = {name for name, child in graph.named_children() if isinstance(child, torch.fx.GraphModule)}
        sizes[repeats] = len(bodies)
    # The first layer has nothing to add before its norm, and so a body of its own.
    assert sizes == {3: 3, 5: 3}, "one body for each kind of layer"


def test_the_cache_is_kept_apart_by_what_the_code_depends_on(loaded, private):
    same = cache_folder(loaded.network)
    assert cache_folder(private().network) == same
    other = Qwen35(deep(["linear_attention"] * 3)).eval()
    assert cache_folder(other) != same
    assert cache_folder(private().network.to(torch.bfloat16)) != same
