"""The engine with cached keys and values in FP8."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from ocria.document.reader import NANO
from ocria.errors import CheckpointError, UsageError
from ocria.model.checkpoint import load_model
from ocria.model.line import line_image
from ocria.quant.formats import write_checkpoint
from ocria.quant.round import quantize_fp8
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request

WORDS = "The quick brown fox jumps over lazy dogs; 1,024 of them (see page 7) were “quoted” in 1887."
WORDS = WORDS.split()


@pytest.fixture(scope="module")
def nano():
    return load_model(NANO, dtype=torch.float32)


@pytest.fixture(scope="module")
def lines(nano):
    """Clean lines of print, and what the model reads in them with an exact cache."""
    sequence = np.random.SeedSequence()
    print(f"entropy {sequence.entropy}")
    rng = np.random.default_rng(sequence)
    prompt = nano.tokenizer.encode(nano.tokenizer.render(nano.profile.messages(), **nano.profile.template_kwargs))
    requests = []
    for name in range(12):
        text = " ".join(rng.choice(WORDS, int(rng.integers(2, 9))))
        image = Image.new("L", (60 + 22 * len(text), 70), 255)
        ImageDraw.Draw(image).text((20, 12), text, font=ImageFont.load_default(36), fill=0)
        requests.append(Request(name, prompt, [line_image(np.asarray(image))]))
    return requests, [result.tokens for result in Engine(nano).run(requests)]


def same(results, exact):
    return sum(result.tokens == tokens for result, tokens in zip(results, exact, strict=True))


def run(loaded, requests, **options):
    return Engine(loaded, EngineOptions(kv_cache="fp8", **options)).run(requests)


def test_reads_alone_in_a_batch_and_with_drafts(nano, lines):
    """A key that lies on the border of two codes may be rounded either way where sums have another order; the answers
    of clean lines are not that close."""
    requests, exact = lines
    alone = run(nano, requests, max_batch=1)
    together = run(nano, requests, max_batch=5, prefill_rows=16)
    drafted = run(nano, requests, max_batch=5, draft="vision")
    assert same(alone, exact) >= 9, [result.text for result in alone]
    assert sum(a.tokens == b.tokens for a, b in zip(alone, together, strict=True)) >= 11
    assert sum(a.tokens == b.tokens for a, b in zip(alone, drafted, strict=True)) >= 11
    assert sum((result.acceptance for result in drafted), start=drafted[0].acceptance).accept_length > 2


def test_cache_is_smaller_and_told(nano, lines):
    full, fp8 = (Engine(nano, EngineOptions(max_batch=3, kv_cache=kind)) for kind in ("full", "fp8"))
    for engine in (full, fp8):
        engine.run(lines[0][:1])
    assert fp8.worker.plan.kv * 4 == full.worker.plan.kv > 0  # against fp32
    assert all(cache.dtype == torch.float8_e4m3fn for cache in fp8.worker.state.keys + fp8.worker.state.values)
    assert "KV cache fp8" in fp8.options.levers()
    assert "KV" not in full.options.levers()
    with pytest.raises(UsageError, match="full, fp8"):
        EngineOptions(kv_cache="int8")


def test_scales_of_the_checkpoint_are_used(nano, lines, tmp_path):
    requests, exact = lines
    attention = [name for name, module in nano.network.named_modules() if name.endswith("self_attn")]
    module = f"{attention[0]}.o_proj"
    weight = quantize_fp8(nano.network.get_submodule(module).weight.detach(), "channel")
    scales = {name: (torch.tensor(0.02 + 0.01 * i), torch.tensor(0.06)) for i, name in enumerate(attention)}
    write_checkpoint(tmp_path / "own", NANO, {module: weight}, "compressed-tensors", kv_scales=scales)
    loaded = load_model(tmp_path / "own", dtype=torch.float32)
    assert loaded.report.ignored == ()
    for name in attention:
        assert torch.equal(loaded.network.get_submodule(name).kv_scale, torch.stack(scales[name]))
    own = run(loaded, requests)
    assert same(own, exact) >= 9
    # Scales so coarse that most codes are zero: they are not ignored.
    absurd = dict.fromkeys(attention, (torch.tensor(1e6), torch.tensor(1e6)))
    write_checkpoint(tmp_path / "absurd", NANO, {module: weight}, "compressed-tensors", kv_scales=absurd)
    spoilt = run(load_model(tmp_path / "absurd", dtype=torch.float32), requests)
    assert same(spoilt, exact) == 0


def test_scales_for_what_is_no_attention_are_refused(nano, tmp_path):
    module = next(name for name, _ in nano.network.named_modules() if name.endswith("self_attn.o_proj"))
    weight = quantize_fp8(nano.network.get_submodule(module).weight.detach(), "channel")
    wrong = {"model.language_model.layers.0.mlp": (torch.tensor(1.0), torch.tensor(1.0))}
    write_checkpoint(tmp_path / "wrong", NANO, {module: weight}, "compressed-tensors", kv_scales=wrong)
    with pytest.raises(CheckpointError, match=r"layers\.0\.mlp.*no attention"):
        load_model(tmp_path / "wrong")
