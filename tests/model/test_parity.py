"""The network against transformers' Qwen3.5, in fp32, on checkpoints that transformers drew and saved.

Tolerance: both sides compute in fp32 but in different orders (chunk sizes, fused products, oneDNN). Over 20 draws
of every shape the relative RMS error reached 3e-6 and the largest error 2e-5 of the largest logit, from norms that
divide by a small vector. The bounds lie ten times above that and far under what a wrong constant causes.
"""

import copy
from dataclasses import dataclass, replace

import pytest
import torch

pytest.importorskip("transformers")
from references import (
    SHAPES,
    WITH_IMAGES,
    Driver,
    build,
    draw_prompt,
    reference_inputs,
    write_companions,
)

from ocria.model.checkpoint import load_model
from ocria.model.network import Qwen35

RMS_ERROR = 5e-5
LARGEST_ERROR = 5e-4
STEPS = 40

PROMPTS = {
    "text": [(23,), (1,), (131,)],
    "images": [(5, (3, 7), 4), ((1, 1), 3), (2, (5, 2), 1, (1, 9), 6, (4, 4), 2), (70, (11, 6), 3)],
}


@dataclass(frozen=True)
class Pair:
    """transformers' model and ours, loaded from the folder that transformers wrote.

    `plain`: projections one by one and windows without hints, the definition. `quick`: as the engine runs it.
    """

    name: str
    reference: torch.nn.Module
    plain: Qwen35
    quick: Qwen35
    half: Qwen35
    """As `quick`, in bf16."""

    def drivers(self, slots=1):
        return [Driver(self.plain, slots), Driver(self.quick, slots, hints=True), Driver(self.quick, slots, ring=8)]

    def prompts(self):
        kinds = ["text", "images"] if self.name in WITH_IMAGES else ["text"]
        return [draw_prompt(self.plain, *parts) for kind in kinds for parts in PROMPTS[kind]]


@pytest.fixture(scope="module", params=SHAPES)
def pair(request, tmp_path_factory, tokenizer_json):
    shape = SHAPES[request.param]
    folder = tmp_path_factory.mktemp("checkpoint")
    reference = build(shape)
    reference.save_pretrained(folder)
    write_companions(folder, tokenizer_json, shape)
    plain, quick = load_model(folder).network, load_model(folder).network
    half = load_model(folder, dtype=torch.bfloat16).network
    for network in (quick, half):
        network.prepare()
    return Pair(request.param, reference, plain, quick, half)


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def assert_close(ours, theirs):
    assert ours.shape == theirs.shape
    assert ours.isfinite().all()
    rms = (ours - theirs).square().mean().sqrt() / theirs.square().mean().sqrt()
    largest = (ours - theirs).abs().max() / theirs.abs().max()
    assert rms < RMS_ERROR, f"relative RMS error {rms:.1e}, largest {largest:.1e}"
    assert largest < LARGEST_ERROR, f"largest relative error {largest:.1e}, RMS {rms:.1e}"


def test_vision_features(pair):
    if pair.name not in WITH_IMAGES:
        assert not hasattr(pair.plain.model, "visual")
        return
    for parts in PROMPTS["images"]:
        prompt = draw_prompt(pair.plain, *parts)
        features = pair.reference.model.get_image_features(prompt.pixel_values, torch.tensor(prompt.grids))
        for network in (pair.plain, pair.quick):
            ours = network.encode_image(prompt.pixel_values, prompt.grids)
            assert_close(ours, torch.cat(features.pooler_output))
            unmerged = network.model.visual.features(prompt.pixel_values, prompt.grids)
            assert_close(unmerged, features.last_hidden_state)


def test_prefill_logits(pair):
    for prompt in pair.prompts():
        theirs = pair.reference(**reference_inputs(prompt)).logits[0]
        # A reference whose rows hardly differ would prove nothing.
        assert theirs.std() > 0.5
        for driver in pair.drivers():
            assert_close(driver.prefill({1: prompt})[1], theirs)


def test_bf16_is_as_good_as_theirs(pair):
    """In bf16 every order of sums rounds differently; ours may be off the fp32 truth as far as theirs, no more."""
    theirs, ours = 0.0, 0.0
    rounded = copy.deepcopy(pair.reference).bfloat16()
    for prompt in pair.prompts():
        truth = pair.reference(**reference_inputs(prompt)).logits[0]
        theirs += (rounded(**reference_inputs(prompt)).logits[0] - truth).square().mean()
        ours += (Driver(pair.half, hints=True).prefill({1: prompt})[1] - truth).square().mean()
    assert ours.sqrt() < 1.5 * theirs.sqrt()


def test_greedy_tokens(pair):
    settings = {"max_new_tokens": STEPS, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    settings |= {"output_logits": True, "return_dict_in_generate": True}
    for prompt in pair.prompts():
        out = pair.reference.generate(**reference_inputs(prompt), **settings)
        theirs = out.sequences[0, len(prompt.ids) :].tolist()
        assert len(theirs) == STEPS
        for driver in pair.drivers():
            ours = driver.greedy({1: prompt}, STEPS)[1]
            if ours != theirs:
                # Only where two tokens are as good as equal to the reference itself may the choice differ.
                step = next(i for i in range(STEPS) if ours[i] != theirs[i])
                logits = out.logits[step][0]
                regret = (logits.max() - logits[ours[step]]) / logits.abs().max()
                assert regret < LARGEST_ERROR, f"token {step} differs with a regret of {regret:.1e}"


@pytest.mark.parametrize("chunks", [[1, 1, 3, 64], [7], [2, 65]], ids=str)
def test_chunked_prefill_equals_whole(pair, chunks):
    for prompt in pair.prompts():
        whole = Driver(pair.plain).prefill({1: prompt})[1]
        for driver in pair.drivers():
            assert_close(driver.prefill({1: prompt}, chunks)[1], whole)


def test_decoding_after_chunks_equals_prefill(pair):
    """The state after any way of filling it is the same: feed the last tokens one by one."""
    for prompt in pair.prompts():
        extra = draw_prompt(pair.plain, 6)
        longer = replace(prompt, ids=prompt.ids + extra.ids)
        whole = Driver(pair.plain).prefill({1: longer})[1]
        for driver in pair.drivers():
            driver.prefill({1: prompt}, [3])
            stepped = torch.stack([driver.decode({1: token})[1] for token in extra.ids])
            assert_close(stepped, whole[-6:])


def test_a_batch_equals_each_alone(pair):
    batch = dict(enumerate(pair.prompts(), start=1))
    backwards = dict(reversed(batch.items()))  # slots need not be in order
    alone = {slot: Driver(pair.plain).prefill({1: prompt})[1] for slot, prompt in batch.items()}
    for prompts, chunks in ((batch, None), (backwards, [5, 40])):
        for driver in pair.drivers(len(batch)):
            for slot, logits in driver.prefill(prompts, chunks).items():
                assert_close(logits, alone[slot])


def test_a_batch_decodes_like_each_alone(pair):
    batch = dict(enumerate(pair.prompts(), start=1))
    for driver in pair.drivers(len(batch)):
        last = {slot: logits[-1] for slot, logits in driver.prefill(batch).items()}
        alone = {slot: Driver(pair.plain) for slot in batch}
        for slot, prompt in batch.items():
            alone[slot].prefill({1: prompt})
        for step in range(6):
            tokens = {slot: int(logits.argmax()) for slot, logits in last.items()}
            if step > 2:
                tokens.pop(2, None)  # requests end at different times; their slot rests
            last = driver.decode(tokens, padding=step)
            for slot, token in tokens.items():
                assert_close(last[slot], alone[slot].decode({1: token})[1])


def test_a_slot_is_reusable(pair):
    first, second = pair.prompts()[::2][:2]
    for driver in pair.drivers():
        driver.greedy({1: first}, 3)
        assert_close(driver.prefill({1: second})[1], Driver(pair.plain).prefill({1: second})[1])
