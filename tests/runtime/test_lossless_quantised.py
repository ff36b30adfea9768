"""With quantised weights too, and with quantised inputs, drafts change nothing in fp32: eager or traced, alone or
together.

A scale of a row is made of that row alone, so rows do not see their neighbours. Where sums in another order make a
value round to the neighbouring code, an answer may change whose logits were nearly equal: by a teacher-forced pass,
with the inputs quantised as well, the two lie within NEAR. Such answers are counted.
"""

import functools

import numpy as np
import pytest
import torch
from scripted import Oracle, chain, some_wrong
from test_lossless import TIE, Loop, lines, nano  # noqa: F401  (fixtures)
from test_network_drafts import random_drafter

from ocria.document.reader import NANO
from ocria.model.checkpoint import load_model
from ocria.model.weights import list_tensors, read_tensors
from ocria.ops.linear import Linear
from ocria.quant.formats import OnDemand, write_checkpoint
from ocria.quant.formats.contents import plain_linears
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.runtime.compiled import compile_step
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.teacher import Teacher
from ocria.spec.lookup import NGramLookup, TextLookup
from ocria.spec.network import NetworkDrafts

NEAR = {"full": TIE, "quantised": 0.5}
INPUT = torch.tensor(8 / 2688)
"""A multiplier for inputs of up to 8 or so; beyond, they are clipped."""


def mix(name, weight):
    """NVFP4 for the MLPs, with inputs or without; FP8 of both granularities; gates and what reads images stay."""
    if ".mlp." in name:
        return quantize_nvfp4(weight, search="four_over_six", input_multiplier=None if "down" in name else INPUT)
    return quantize_fp8(weight, "channel" if "o" in name.rpartition(".")[2] else "tensor", activations="token")


def quantised(source, out, wanted):
    """`source` written to `out` with the linear layers that `wanted` says."""
    infos = list_tensors(source)
    names = [name for name in plain_linears(infos) if wanted(name)]
    read = lambda name: next(read_tensors([infos[f"{name}.weight"]]))[1].clone()  # noqa: E731
    write_checkpoint(out, source, OnDemand(names, lambda name: mix(name, read(name))), "compressed-tensors")
    return out


def decoders(name):
    return ".language_model." in name and "in_proj_a" not in name and "in_proj_b" not in name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded model, quantised, with quantised drafters in it."""
    out = quantised(NANO, tmp_path_factory.mktemp("quantised") / "nano", decoders)
    for drafter in sorted(NANO.glob("drafter*")):
        quantised(drafter, out / f"small-{drafter.name}", lambda name: ".mlp." in name or "self_attn" in name)
    return out


@pytest.fixture(scope="module")
def some(lines):  # noqa: F811
    return lines[:6]


def check(model, activations, requests, plain, results):
    """Answers that differ, each at a place where the two tokens were nearly as good."""
    teacher, ties = Teacher(model, activations), 0
    for request, a, b in zip(requests, plain, results, strict=True):
        if a.tokens == b.tokens and a.finish_reason == b.finish_reason:
            continue
        pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
        first = next((i for i, (x, y) in pairs if x != y), min(len(a.tokens), len(b.tokens)))
        for result in (a, b):
            regret = float(teacher.regrets(request, result)[first])
            assert regret < NEAR[activations], (request.id, first, regret, a.text, b.text)
        ties += 1
    print(f"{ties} of {len(requests)} answers differ at a tie")
    return ties


@pytest.mark.parametrize("activations", ["full", "quantised"])
def test_lines_are_read_as_without_drafts(folder, some, activations):
    model = load_model(folder, dtype=torch.float32)
    assert "FP8" in model.report.formats
    assert "NVFP4" in model.report.formats
    rng = np.random.default_rng()
    plain = Engine(model, EngineOptions(max_batch=4, activations=activations)).run(some)
    engine = Engine(model, EngineOptions(max_batch=1, activations=activations))
    assert check(model, activations, some[:3], plain[:3], engine.run(some[:3])) <= 1
    drafters = sorted(folder.glob("small-*"))
    assert len(drafters) == len(list(NANO.glob("drafter*"))) > 0
    for draft in ("lookup", "vision", "auto", "lookup,vision,own", *map(str, drafters)):
        options = EngineOptions(
            max_batch=int(rng.integers(1, 9)), admit_group=1, draft=draft, activations=activations,
            draft_rows=[None, 7, 16][int(rng.integers(3))],
        )  # fmt: skip
        engine = Engine(model, options)
        assert f"activations {activations}" in engine.options.levers()
        results = engine.run(some)
        engine.check_integrity()
        assert check(model, activations, some, plain, results) <= 1, "as good as equal is rare"
        assert engine.metrics.acceptance.accepted > 0


@pytest.mark.parametrize(
    ("version", "activations", "traced"),
    [(1, "full", False), (1, "quantised", False), (2, "full", False), (2, "quantised", False), (2, "quantised", True)],
)
def test_random_models_in_long_chains(private, make_request, rng, monkeypatch, version, activations, traced):
    """Target and drafter hold every kind of weight; everything drafts at once, but for the oracle, which looks at
    numbers and cannot be traced."""
    if traced:
        eager = functools.partial(compile_step, backend="eager")
        monkeypatch.setattr("ocria.runtime.compiled.compile_step", eager)
    model, inputs = private(), activations == "quantised"
    drafter = random_drafter(version, int(rng.integers(1 << 30))).requires_grad_(False)
    kinds = [
        lambda w: quantize_fp8(w, "channel"), lambda w: quantize_fp8(w, "tensor", input_scale=torch.tensor(0.02)),
        lambda w: quantize_fp8(w, "block"), lambda w: quantize_nvfp4(w, input_multiplier=INPUT), quantize_nvfp4,
    ]  # fmt: skip
    for name, layer in [*model.network.model.language_model.named_modules(), *drafter.named_modules()]:
        if isinstance(layer, Linear) and rng.random() < 0.8 and "in_proj_a" not in name and layer.in_features % 16 == 0:
            layer.hold(kinds[int(rng.integers(len(kinds)))](layer.weight.detach()))
    assert model.network.quantises_inputs
    requests = [
        make_request(i, prompt_len=int(rng.integers(1, 20)), image=(1, 2) if i % 3 == 0 else None,
                     max_tokens=int(rng.integers(1, 30)))
        for i in range(3 if traced else 8)
    ]  # fmt: skip
    plain = Engine(model, EngineOptions(max_batch=3, activations=activations)).run(requests)
    truth, rows = Oracle({r.id: list(r.tokens) for r in plain}, some_wrong, rng), 6
    drafts = NetworkDrafts(drafter, model.network, inputs)
    sources = (TextLookup(), Loop(), *([] if traced else [truth]), NGramLookup(), drafts)
    batch = 1 if traced else 5  # every number of rows but one is another graph, and tracing takes long
    options = EngineOptions(max_batch=batch, draft_rows=rows, activations=activations, compile=traced)
    truth.engine = Engine(model, options, drafter=chain(rows, *sources))
    results = truth.engine.run(requests)
    truth.engine.check_integrity()
    check(model, activations, requests, plain, results)
    assert {"scripted", "loop", drafts.name} & set(truth.engine.metrics.acceptance.sources)
