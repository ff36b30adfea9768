"""The memory plan: every part counted before loading, refused with the numbers when it does not fit."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from large_model import large_config
from safetensors.torch import save_file
from small_model import CONFIG, random_weights
from torch.profiler import ProfilerActivity, profile

from ocria.errors import CheckpointError, EngineError
from ocria.model.config import ModelConfig, VisionConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.model.quantized import WeightBytes
from ocria.model.state import DecoderState
from ocria.model.vision import VisionEncoder
from ocria.runtime.budget import PageBudget, plan_checkpoint
from ocria.runtime.memory import (
    MemoryPlan,
    checkpoint_bytes,
    default_limit,
    free_memory,
    is_out_of_memory,
    network_bytes,
    resident_bytes,
    shrink,
    size,
    used_memory,
    vision_bytes,
)
from ocria.runtime.options import EngineOptions, resolve
from ocria.runtime.request import Limits, Request

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
GIB = 1 << 30


def large_budget(loaded, memory=None, free=130 * GIB, dtype=torch.bfloat16, **options):
    """The 4B shapes on a GPU that is not there: everything is counted, nothing allocated."""
    image = replace(loaded.image, patch_size=16, min_pixels=1 << 16, max_pixels=1 << 24)
    profile = Profile(name="large", unit="page", prompt="", dialect="markdown", max_output_tokens=4096)
    resolved = resolve(EngineOptions(memory_bytes=memory, **options), CUDA)
    return PageBudget(large_config(), image, profile, resolved, dtype, CUDA, free=free)


def save(loaded, folder, dtype, shards=1):
    """The small checkpoint as files, with a tensor of the multi-token prediction block that is never loaded."""
    keep = re.compile(r".*\.linear_attn\.(A_log|norm\.weight)")
    tensors = {
        name: p.detach().to(torch.float32 if keep.fullmatch(name) else dtype).contiguous()
        for name, p in loaded.network.named_parameters()
    }
    tensors["mtp.fc.weight"] = torch.zeros(48, 96, dtype=dtype)
    names = sorted(tensors)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    placed = {name: f"part-{i % shards}.safetensors" for i, name in enumerate(names)}
    for file in set(placed.values()):
        save_file({name: tensors[name] for name in names if placed[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_weights_are_counted_from_the_headers(loaded, tmp_path, stored, dtype, shards):
    from ocria.model.checkpoint import load_network

    save(loaded, tmp_path, stored, shards)
    network, report = load_network(tmp_path, loaded.config, dtype=dtype)
    held = sum(parameter.nbytes for parameter in network.parameters())
    assert checkpoint_bytes(tmp_path, dtype) == WeightBytes(held)
    assert network_bytes(loaded.config, report.dtype) == held


def test_weights_that_are_no_safetensors_are_a_typed_error(loaded, tmp_path):
    save(loaded, tmp_path, torch.float32)
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:100])
    with pytest.raises(CheckpointError, match="safetensors"):
        checkpoint_bytes(tmp_path)


def test_the_known_size_of_the_4b_model():
    """4.539 billion parameters are published; two bytes each."""
    assert network_bytes(large_config(), torch.bfloat16) == pytest.approx(2 * 4_539_265_536, rel=1e-4)


def test_packed_copies_are_counted_where_they_are_made():
    plain, mixed, large = WeightBytes(1000), WeightBytes(1000, 500, 130), WeightBytes(6 * GIB, 4 * GIB, GIB)
    assert resident_bytes(plain, CPU) == 2000
    assert resident_bytes(plain, CUDA) == 1000
    assert [resident_bytes(mixed, CPU, compiled) for compiled in (False, True)] == [2500, 3000]
    assert resident_bytes(mixed, CUDA) == 1130
    assert [resident_bytes(large, CPU, compiled) for compiled in (False, True)] == [10 * GIB] * 2


@pytest.mark.parametrize("ring", [0, 16, 64])
def test_a_plan_of_the_state_is_what_gets_allocated(loaded, rng, ring):
    options = resolve(EngineOptions(max_batch=int(rng.integers(1, 5)), ring=ring), CPU)
    budget = PageBudget(loaded.config, loaded.image, loaded.profile, options, torch.float32, CPU)
    plan = budget.plan(int(rng.integers(1, 400)))
    state = DecoderState.allocate(loaded.config.text, plan.slots + 1, plan.max_len, torch.float32, ring=ring)
    assert plan.bytes == sum(tensor.nbytes for tensor in state.tensors())
    kinds = {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in state.kinds().items()}
    assert plan.kv == kinds["keys"] + kinds["values"]
    assert plan.checkpoints == kinds["checkpoint"]
    assert plan.conv == kinds["conv_ring"]
    assert (plan.rings > 0) == (ring > 0)
    assert plan.total == sum(plan.parts().values()) <= plan.limit


def test_parts_of_the_4b_model(loaded):
    """Per request: 48 MiB of checkpoints in fp32, 32 KiB of keys and values a row, 12.4 KB of ring a row and layer."""
    budget = large_budget(loaded, max_batch=12)
    plan = budget.plan(16384)
    assert (plan.slots, plan.max_len) == (12, 16384)
    assert plan.checkpoints == 13 * 48 * (1 << 20)
    assert plan.kv == 13 * 16384 * 32 * 1024
    assert plan.rings == 13 * 24 * 16 * (2 * 8192 + 4096 + 2 * 4 * 32)
    assert plan.graphs == GIB
    assert plan.total <= plan.limit == budget.memory_bytes
    assert 1 * GIB < plan.vision < 4 * GIB  # 65,536 patches of 1024 channels


@pytest.mark.parametrize("memory", [13 * GIB, 14 * GIB, 20 * GIB, 60 * GIB])
def test_no_plan_exceeds_the_limit(loaded, memory):
    budget = large_budget(loaded, memory)
    plan = budget.plan(budget.max_len)
    assert plan.total <= memory
    assert plan.slots >= 1
    beside = 248320 * (2 + 4 + 4) + min(plan.max_len, 16384 + 128) * (2560 * 2 + 24)  # logits, embedded prompt
    another = plan.bytes // (plan.slots + 1) + beside
    assert plan.slots == 64 or plan.total + another > memory


def test_what_does_not_fit_is_refused_with_every_number(loaded):
    budget = large_budget(loaded, 9 * GIB)
    with pytest.raises(EngineError) as caught:
        budget.first_plan()
    told = str(caught.value)
    for part in ("weights 8.5 GiB", "kv", "checkpoints 96.0 MiB", "rings", "conv", "graphs 1.0 GiB", "vision", "text"):
        assert f"{part} " in f"{told} ".replace(",", " ")
    assert "of 9.0 GiB" in told
    for option in ("--memory", "--batch", "--max-pixels", "--max-output-tokens"):
        assert option in told


def test_a_smaller_largest_image_makes_room(loaded):
    with pytest.raises(EngineError):
        large_budget(loaded, 11 * GIB, graph=False).first_plan()
    budget = large_budget(loaded, 11 * GIB, graph=False)
    budget.image = budget.image.with_limits(max_pixels=1 << 20)
    assert budget.first_plan().slots >= 1


def test_a_model_that_is_too_large_is_refused_before_its_weights_are_read(loaded, tmp_path, monkeypatch):
    from ocria.model import checkpoint

    def read(infos):
        raise AssertionError("weights were read")

    monkeypatch.setattr(checkpoint, "read_tensors", read)
    save(loaded, tmp_path, torch.float32)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"patch_size": 8, "size": {"longest_edge": 1 << 20}}))
    overrides = {"max_output_tokens": 9, "unit": "line"}

    def plan(**options):
        return plan_checkpoint(tmp_path, resolve(EngineOptions(**options), CPU), torch.float32, CPU, overrides)

    with pytest.raises(EngineError, match=r"not enough memory.*weights"):
        plan(memory_bytes=1 << 20)
    fits = plan()
    assert fits.weights == resident_bytes(WeightBytes(network_bytes(loaded.config, torch.float32)), CPU)
    assert fits.total <= fits.limit <= free_memory(CPU)


def test_shrinking_halves_the_requests_and_nothing_else():
    plan = MemoryPlan(9, 128, 10**6, weights=500, kv=1000, checkpoints=200, rings=300, conv=40, vision=7)
    small = shrink(plan)
    assert (small.slots, small.max_len, small.limit) == (4, 128, 10**6)
    assert (small.kv, small.checkpoints, small.rings, small.conv) == (500, 100, 150, 20)
    assert (small.weights, small.vision) == (500, 7)
    assert (plan.slots, plan.kv) == (9, 1000)
    assert shrink(shrink(small)).slots == 1
    with pytest.raises(EngineError, match=r"single request.*--batch"):
        shrink(MemoryPlan(1, 128))
    assert MemoryPlan.none().total == MemoryPlan.none().bytes == 0


def test_failed_allocations_are_recognised():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert not is_out_of_memory(KeyboardInterrupt())
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def test_the_default_limit_leaves_room_and_is_never_more_than_there_is():
    assert default_limit(100, 1000, CPU) == 600
    assert default_limit(100, 1000, CUDA) == 1000
    assert default_limit(2000, -500, CUDA) == 1500


def peak_bytes(work):
    """Most bytes that torch's CPU allocator held at a time while `work` ran, beside what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    now = most = 0
    events = (event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]")
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_vision_peak_is_not_underestimated(rng, dtype):
    """The pass holds its pixels besides what it allocates. Twice the truth would waste what a page could use."""
    heads = int(rng.integers(1, 5))
    width, inner = 64 * heads, int(rng.integers(96, 300)) * heads
    config = VisionConfig(2, width, inner, heads, 128, num_position_embeddings=256)
    rows, columns = (2 * rng.integers(8, 24, 2)).tolist()
    encoder = VisionEncoder(config).to(dtype).requires_grad_(False)
    patches = torch.from_numpy(rng.normal(size=(rows * columns, config.patch_dim)).astype(np.float32))
    with torch.inference_mode():
        measured = peak_bytes(lambda: encoder(patches, [(1, rows, columns)])) + patches.nbytes
    assert measured <= vision_bytes(config, rows * columns, dtype) <= 2 * measured


SHAPES = [
    {},
    {
        "hidden_size": 320, "intermediate_size": 900, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 128, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64,
        "linear_value_head_dim": 64, "vocab_size": 1000,
    },
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=["small", "wide"])
def test_the_text_peak_is_not_underestimated(tokenizer, seed, dtype, shape):
    """Two long prompts in chunks through the engine. The mask, counted for full slots, makes it an upper bound."""
    from ocria.runtime.engine import Engine

    data = json.loads(json.dumps(CONFIG))
    data["text_config"] |= shape
    data["vision_config"]["out_hidden_size"] = data["text_config"]["hidden_size"]
    if shape:
        data["text_config"]["rope_parameters"] |= {"mrope_section": [16, 8, 8]}
    config = ModelConfig.from_dict(data)
    network = Qwen35(config).to(dtype).eval().requires_grad_(False)
    random_weights(network, seed)
    profile = Profile(name="small", unit="line", prompt="", dialect="text", max_output_tokens=64)
    loaded = SimpleNamespace(network=network, tokenizer=tokenizer, config=config, profile=profile, image=None)
    engine = Engine(loaded, EngineOptions(max_batch=2, prefill_rows=256))
    requests = [Request(name, [65] * 700, (), Limits(max_tokens=2)) for name in "ab"]
    engine.run(requests)  # the state is allocated here, and not counted
    for request in requests:
        engine.submit(request)
    most = 0
    while not engine.idle:
        most = max(most, peak_bytes(engine.step))
    planned = engine.budget.plan(702).text
    assert most <= planned <= 4 * most


def test_sizes_are_readable():
    assert [size(n) for n in (0, 3 << 19, GIB, 3 * GIB // 2)] == ["0.0 MiB", "1.5 MiB", "1.0 GiB", "1.5 GiB"]


def test_memory_of_this_machine_is_plausible():
    assert 1 << 20 < free_memory(CPU) < 1 << 50
    assert 1 << 20 < used_memory(CPU) < 1 << 50
