"""The network against transformers' Qwen3.5, in fp32, on checkpoints that transformers drew and saved.

Tolerance: both sides compute in fp32 but in different orders (chunk sizes, fused products). A row whose gated norm
meets a small vector amplifies that rounding, so single logits scatter more than the rest. Over 75 draws a shape
the relative RMS error had a median of 2e-6 and reached 3e-5, the largest error 2e-4 of the largest logit. The
bounds below lie above that and far under what a wrong constant causes.
"""

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

RMS_ERROR = 1e-4
LARGEST_ERROR = 1e-3
STEPS = 40

PROMPTS = {
    "text": [(23,), (1,), (131,)],
    "images": [(5, (3, 7), 4), ((1, 1), 3), (2, (5, 2), 1, (1, 9), 6, (4, 4), 2), (70, (11, 6), 3)],
}


@pytest.fixture(scope="module", params=SHAPES)
def pair(request, tmp_path_factory, tokenizer_json):
    """transformers' model and ours, loaded from the folder that transformers wrote."""
    shape = SHAPES[request.param]
    folder = tmp_path_factory.mktemp("checkpoint")
    reference = build(shape)
    reference.save_pretrained(folder)
    write_companions(folder, tokenizer_json, shape)
    return request.param, reference, load_model(folder).network


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def prompts(name, network):
    kinds = ["text", "images"] if name in WITH_IMAGES else ["text"]
    return [draw_prompt(network, *parts) for kind in kinds for parts in PROMPTS[kind]]


def assert_close(ours, theirs):
    assert ours.shape == theirs.shape
    assert ours.isfinite().all()
    rms = (ours - theirs).square().mean().sqrt() / theirs.square().mean().sqrt()
    largest = (ours - theirs).abs().max() / theirs.abs().max()
    assert rms < RMS_ERROR, f"relative RMS error {rms:.1e}, largest {largest:.1e}"
    assert largest < LARGEST_ERROR, f"largest relative error {largest:.1e}, RMS {rms:.1e}"


def test_vision_features(pair):
    name, reference, network = pair
    if name not in WITH_IMAGES:
        pytest.skip("a text-only checkpoint")
    for parts in PROMPTS["images"]:
        prompt = draw_prompt(network, *parts)
        features = reference.model.get_image_features(prompt.pixel_values, torch.tensor(prompt.grids))
        ours = network.encode_image(prompt.pixel_values, prompt.grids)
        assert_close(ours, torch.cat(features.pooler_output))
        assert_close(network.model.visual.features(prompt.pixel_values, prompt.grids), features.last_hidden_state)


def test_prefill_logits(pair):
    name, reference, network = pair
    for prompt in prompts(name, network):
        theirs = reference(**reference_inputs(prompt)).logits[0]
        # A reference whose rows hardly differ would prove nothing.
        assert theirs.std() > 0.5
        assert_close(Driver(network).prefill({1: prompt})[1], theirs)


def test_greedy_tokens(pair):
    name, reference, network = pair
    for prompt in prompts(name, network):
        settings = {"max_new_tokens": STEPS, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        out = reference.generate(
            **reference_inputs(prompt), **settings, output_logits=True, return_dict_in_generate=True
        )
        theirs = out.sequences[0, len(prompt.ids) :].tolist()
        ours = Driver(network).greedy({1: prompt}, STEPS)[1]
        assert len(theirs) == STEPS
        if ours != theirs:
            # Only where two tokens are as good as equal to the reference itself may the choice differ.
            step = next(i for i in range(STEPS) if ours[i] != theirs[i])
            logits = out.logits[step][0]
            regret = (logits.max() - logits[ours[step]]) / logits.abs().max()
            assert regret < LARGEST_ERROR, f"token {step} differs with a regret of {regret:.1e}"


@pytest.mark.parametrize("chunks", [[1, 1, 3, 64], [7], [2, 65]], ids=str)
def test_chunked_prefill_equals_whole(pair, chunks):
    name, _, network = pair
    for prompt in prompts(name, network):
        whole = Driver(network).prefill({1: prompt})[1]
        assert_close(Driver(network).prefill({1: prompt}, chunks)[1], whole)


def test_decoding_after_chunks_equals_prefill(pair):
    """The state after any way of filling it is the same: feed the last tokens one by one."""
    name, _, network = pair
    for prompt in prompts(name, network):
        driver = Driver(network)
        driver.prefill({1: prompt}, [3])
        extra = draw_prompt(network, 6)
        stepped = torch.stack([driver.decode({1: token})[1] for token in extra.ids])
        longer = type(prompt)(prompt.ids + extra.ids, prompt.pixel_values, prompt.grids)
        assert_close(stepped, Driver(network).prefill({1: longer})[1][-6:])


def test_a_batch_equals_each_alone(pair):
    name, _, network = pair
    batch = dict(enumerate(prompts(name, network), start=1))
    order = dict(sorted(batch.items(), key=lambda item: -item[0]))  # slots need not be in order
    together = Driver(network, len(batch)).prefill(order, [5, 40])
    for slot, prompt in batch.items():
        assert_close(together[slot], Driver(network).prefill({1: prompt})[1])


def test_a_batch_decodes_like_each_alone(pair):
    name, _, network = pair
    batch = dict(enumerate(prompts(name, network), start=1))
    driver = Driver(network, len(batch))
    last = {slot: logits[-1] for slot, logits in driver.prefill(batch).items()}
    alone = {slot: Driver(network) for slot in batch}
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
    name, _, network = pair
    first, second = prompts(name, network)[::2][:2]
    driver = Driver(network)
    driver.greedy({1: first}, 3)
    assert_close(driver.prefill({1: second})[1], Driver(network).prefill({1: second})[1])
