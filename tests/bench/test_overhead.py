"""The bench of the host's part of a step: the parts add up, other tokens get no times, and a step's operations."""

import json
from types import SimpleNamespace

import host_parts
import overhead
import pytest
import torch

from ocria.ops.register import INTERPRETED

TINY = ["--batch", "1", "3", "--steps", "4", "--rounds", "2"]


@pytest.fixture(scope="module")
def arguments():
    parsed = overhead.parse_arguments(TINY)
    parsed.dtype = "float32"
    parsed.seed = torch.seed() % 2**31
    print(f"seed {parsed.seed}")
    return parsed


@pytest.fixture(scope="module")
def nano(arguments):
    return overhead.load(["nano"], torch.float32, "cpu", arguments.seed)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_parts_of_a_step_add_up(nano, arguments, overlap, monkeypatch):
    """By a clock that counts its readings: every interval between two of them belongs to one part."""
    engine = overhead.make_engine(nano, 3, arguments, overlap=overlap)
    overhead.prefill(engine, overhead.requests(nano, 3, 40, arguments.seed))
    clock = host_parts.HostClock(engine)
    readings = []

    def perf_counter():
        readings.append(float(len(readings)))
        return readings[-1]

    monkeypatch.setattr(host_parts.time, "perf_counter", perf_counter)
    for _ in range(5):
        first = len(readings)
        clock.step()
        assert sum(clock.steps[-1].values()) == len(readings) - 1 - first
    assert len(clock.steps) == 5
    for step in clock.steps:
        assert step.keys() == host_parts.PARTS.keys()
        assert step["wait"] == 0, "nothing to wait for on the CPU"
        assert all(step[part] > 0 for part in host_parts.PARTS if part != "wait")


def test_waiting_for_a_device_is_a_part_of_its_own(nano, arguments):
    engine = overhead.make_engine(nano, 1, arguments, overlap=True)
    overhead.prefill(engine, overhead.requests(nano, 1, 40, arguments.seed))
    waited = []
    start = engine.worker.readback.start

    def on_device(output):
        pending = start(output)
        return SimpleNamespace(read=pending.read, event=SimpleNamespace(synchronize=lambda: waited.append(1)))

    engine.worker.readback = SimpleNamespace(start=on_device)
    clock = host_parts.HostClock(engine)
    clock.step()  # reads what was launched before
    assert clock.steps[-1]["wait"] == 0
    clock.step()
    assert waited == [1]
    assert clock.steps[-1]["wait"] > 0


def test_summary_by_hand():
    steps = [dict.fromkeys(host_parts.PARTS, 1.0) | {"step": s, "wait": 4.0} for s in (10.0, 20.0, 60.0)]
    on_cpu, on_cuda = (host_parts.summary(steps, device) for device in ("cpu", "cuda"))
    assert (on_cpu["plan"], on_cpu["step"], on_cpu["wait"]) == (1.0, 20.0, 4.0)
    assert on_cpu["host"] == 5.0, "plan, rows, readback, commit, other"
    assert on_cuda["host"] == 25.0, "and the launch"
    assert on_cpu["total"] == on_cuda["total"] == 29.0


def test_operations_of_a_step(nano, arguments):
    found = overhead.count_operations(nano, 1, arguments)
    assert found["torch"]["step"] > 0
    assert found["torch"]["ocria"] == {}, "torch forms are no operations of their own"
    if not INTERPRETED:
        pytest.skip("kernels run on the GPU here")
    kernels = found["kernels"]
    ours = kernels["ocria"]
    assert ours["ocria.metadata"] == ours["ocria.accept"] == ours["ocria.greedy"] == 1
    kinds = nano.config.text.layer_types
    assert ours["ocria.replay"] == ours["ocria.gated_conv"] == kinds.count("linear_attention")
    assert ours["ocria.attend"] == kinds.count("full_attention")
    assert sum(ours.values()) < kernels["step"] < found["torch"]["step"]


def test_launches_are_counted_by_kind():
    counts = {
        "cudaLaunchKernel": 30, "cuLaunchKernelEx": 20, "cudaGraphLaunch": 10, "cudaMemcpyAsync": 60, "aten::add": 999,
        "cudaEventSynchronize": 10, "cudaMemsetAsync": 5,
    }  # fmt: skip
    averages = [SimpleNamespace(key=key, count=count) for key, count in counts.items()]
    assert host_parts.launch_counts(averages, 10) == {"kernels": 5.0, "graphs": 1.0, "copies": 6.5}


def test_turns_alternate():
    order = []
    clocks = {name: SimpleNamespace(step=lambda name=name: order.append(name)) for name in "ab"}
    overhead.take_turns(clocks, 3, 2)
    assert order == list("aabbbbaaaabb")


def test_output(capsys):
    assert overhead.main(TINY) == 0
    lines = capsys.readouterr().out.splitlines()
    document = json.loads(lines[-1])
    assert document["same_tokens"] is True
    assert [row["batch"] for row in document["batches"]] == [1, 3]
    assert {"torch"} <= document["operations"].keys() <= {"torch", "kernels"}
    for row in document["batches"]:
        assert list(row["seconds"]) == ["eager", "eager overlap"], "no graphs on the CPU"
        assert row["launches"] is None
        for seconds in row["seconds"].values():
            assert seconds.keys() == {*host_parts.PARTS, "host", "total"}
            assert min(seconds.values()) >= 0
            assert seconds["host"] < seconds["total"]


def test_other_tokens_get_no_times(capsys, monkeypatch):
    """One way to run steps goes wrong in one token."""
    make = overhead.make_engine

    def spoiled(loaded, batch, arguments, **levers):
        engine = make(loaded, batch, arguments, **levers)
        if levers["overlap"]:
            collect = engine._take
            engine._take = lambda sequence, output, row, now: (
                output.tokens[row].__setitem__(0, 7) if len(sequence.tokens) == 9 else None,
                collect(sequence, output, row, now),
            )
        return engine

    monkeypatch.setattr(overhead, "make_engine", spoiled)
    assert overhead.main(["--batch", "2", "--steps", "2", "--rounds", "1"]) == 1
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    assert document["same_tokens"] is False
    assert document["batches"][0]["different"] == ["eager overlap"]
    assert "seconds" not in document["batches"][0]
    assert "no times" in out


def test_faults_of_usage(capsys):
    assert overhead.main(["--model", "9b"]) == 2
    assert "nano" in capsys.readouterr().err
    assert overhead.main(["--model", "4b-random-layers", "33"]) == 2
    if not torch.cuda.is_available():
        assert overhead.main(["--device", "cuda"]) == 2
        assert "no CUDA device" in capsys.readouterr().err


def test_a_random_model_runs(arguments):
    """The shapes of the 4B model, made small."""
    from dataclasses import replace

    from random_model import random_model
    from roofline import config_4b

    config = config_4b()
    text = replace(
        config.text, vocab_size=700, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        layer_types=("linear_attention", "full_attention"),
    )  # fmt: skip
    loaded = overhead.endless(random_model(replace(config, text=text), torch.float32, "cpu", arguments.seed))
    assert len(loaded.tokenizer) == 700
    engine = overhead.make_engine(loaded, 2, arguments, overlap=False)
    results = engine.run(overhead.requests(loaded, 2, 30, arguments.seed))
    assert [result.tokens_out for result in results] == [30, 30]
    # One answer may well repeat a token.
    assert len({token for result in results for token in result.tokens}) > 1, "logits are all alike"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_one_graph_launch_a_step(capsys):
    assert overhead.main(["--device", "cuda", *TINY]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["operations"]["kernels"]["ocria"]["ocria.metadata"] == 1
    for row in document["batches"]:
        assert list(row["seconds"]) == ["eager", "eager overlap", "graph", "graph overlap"]
        for name in ("graph", "graph overlap"):
            assert (row["launches"][name]["graphs"], row["launches"][name]["kernels"]) == (1, 0)
        assert row["launches"]["eager"]["graphs"] == 0
        assert row["launches"]["eager"]["kernels"] > 10
        assert min(row["device"].values()) > 0
