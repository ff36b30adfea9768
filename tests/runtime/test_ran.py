"""What an engine says of how its steps really ran."""

import re
from dataclasses import replace

import pytest
import torch

from ocria.runtime import compiled
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions


class SomeGraphs:
    """Stands for graphs: every third step is a replay, the others find no memory."""

    def __init__(self, run_step, kv_len):
        self.run_step, self.kv_len = run_step, kv_len
        self.calls = self.replays = 0

    def run(self, inputs):
        self.calls += 1
        self.replays += self.calls % 3 == 0
        return self.run_step(replace(inputs, kv_len=self.kv_len, first_slot=None))


@pytest.mark.parametrize("overlap", [False, True])
def test_steps_are_counted_by_how_they_ran(loaded, make_request, overlap):
    """Over several states, which come and go with the size of the requests."""
    engine = Engine(loaded, EngineOptions(max_batch=2, graph=False, overlap=overlap))
    assert engine.ran() == "0 steps, 0 by graph and 0 without, not compiled"
    allocate, graphs = engine.worker.allocate, []

    def with_graphs(plan):
        allocate(plan)
        graphs.append(SomeGraphs(engine.worker.runner._run, plan.max_len))
        engine.worker.runner.graphs = graphs[-1]

    engine.worker.allocate = with_graphs
    for prompt in (10, 300):
        engine.run([make_request(i, prompt_len=prompt, max_tokens=9) for i in range(3)])
    assert len(graphs) == 2
    steps, replays = (sum(getattr(each, name) for each in graphs) for name in ("calls", "replays"))
    assert all(each.replays for each in graphs)
    assert engine.ran() == f"{steps} steps, {replays} by graph and {steps - replays} without, not compiled"


def test_without_graphs_all_steps_are_without(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=2, graph=False))
    launch, launched = engine.worker.launch, []
    engine.worker.launch = lambda *arguments: (launched.append(1), launch(*arguments))[1]
    engine.run([make_request(i, max_tokens=9) for i in range(3)])
    assert engine.ran() == f"{len(launched)} steps, 0 by graph and {len(launched)} without, not compiled"


def test_what_compiling_took_from_the_cache(loaded, monkeypatch):
    counters = torch._dynamo.utils.counters["inductor"]
    monkeypatch.setitem(counters, "fxgraph_cache_hit", 4)
    monkeypatch.setitem(counters, "fxgraph_cache_miss", 3)
    assert compiled.cache_counts() == (4, 3)
    engine = Engine(loaded, EngineOptions(compile=True, graph=False))
    assert re.search(r", compiled: 4 pieces of code from the cache, 3 new$", engine.ran())
