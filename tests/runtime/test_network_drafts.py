"""A block drafter in the engine: it drafts from the rows that the target committed, all of them and no others."""

from dataclasses import replace

import pytest
import torch
from scripted import chain
from small_model import CONFIG, VOCAB

from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.prefill import embed_prompts
from ocria.runtime.sampling import Sampling
from ocria.spec.arena import DraftState
from ocria.spec.config import DrafterConfig
from ocria.spec.load import build
from ocria.spec.network import NetworkDrafts

TEXT = CONFIG["text_config"]


def drafter_data(version):
    """The `config.json` of a drafter for the small model."""
    data = {
        "architectures": ["DFlashDraftModel" if version == 1 else "DFlash2DraftModel"],
        "hidden_size": TEXT["hidden_size"],
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "vocab_size": VOCAB,
        "num_target_layers": TEXT["num_hidden_layers"],
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "dflash_config": {"mask_token_id": 263, "block_size": 6, "target_layer_ids": [0, 2, 3]},
    }
    if version == 2:
        data["is_causal"] = False
        data["dflash_config"] |= {
            "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 8, "selector_top_k": 4
        }  # fmt: skip
    return data


def random_drafter(version, seed):
    network = build(DrafterConfig.from_dict(drafter_data(version)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * (1.5 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.3))
    return network.eval()


class Witness(NetworkDrafts):
    """Keeps what it proposed: by slot, the row of the anchor and the drafts, while the slot is live."""

    def __init__(self, network, target):
        super().__init__(network, target)
        self.proposed = []

    def propose(self, seen):
        drafts = super().propose(seen)
        for row, slot in enumerate(seen.slots.tolist()):
            if seen.live[row]:
                made = drafts.tokens[row, : int(drafts.count[row])].tolist()
                self.proposed.append((slot, int(seen.length[row]), int(seen.anchor[row]), made))
        return drafts


def drafts_alone(loaded, network, sequence, anchor_row, rows):
    """What the drafter says at one place of a finished request, everything computed anew and alone."""
    target, config = loaded.network, loaded.config.text
    embed_prompts(target, loaded.image, [sequence], 4096)  # a finished request's answer is part of what it would feed
    hidden, positions = sequence.hidden[:anchor_row], sequence.positions[:, :anchor_row]
    count = anchor_row
    state = DraftState.allocate(network.config, 2, count + 8, torch.float32)
    slots, zero = torch.tensor([1]), torch.tensor([0])
    if count:
        cos, sin = text_rope(positions, config.rotary_dim, config.rope_theta, config.mrope_section)
        whole = DecoderState.allocate(config, 2, count, torch.float32)
        window = Window.prefill(
            slots, zero, torch.tensor([count]), cos[None], sin[None], count, count, full=True, fresh=True
        )
        _, features = target.tapped(hidden[None], window, whole, network.config.target_layer_ids)
        network.extend(features, positions.amax(0)[None], state, slots, zero, torch.tensor([count]))
    anchor = torch.tensor([sequence.feed[anchor_row]])
    position = torch.tensor([anchor_row + int(sequence.rope_delta)])
    live, length = torch.tensor([True]), torch.tensor([count])
    made = network.draft(target, anchor, position, state, slots, length, live, rows, count + rows)
    return network.propose(target, made, anchor).tokens[0].tolist()


@pytest.mark.parametrize("version", [1, 2])
@torch.inference_mode()
def test_drafts_in_a_batch_are_those_of_each_request_alone(loaded, make_request, rng, version):
    """Prompts in chunks, images, rows that were rejected, neighbours: none of it shows in a draft."""
    network = random_drafter(version, int(rng.integers(1 << 30)))
    witness = Witness(network, loaded.network)
    options = EngineOptions(max_batch=3, prefill_rows=int(rng.integers(5, 40)), draft_rows=6, admit_group=1)
    engine = Engine(loaded, options, drafter=chain(6, witness))
    requests = [
        make_request(i, prompt_len=int(rng.integers(1, 18)), image=(1, 3) if i % 2 else None, max_tokens=14)
        for i in range(6)
    ]
    owner, places = {}, []
    acquire = engine._scheduler._admit

    def admit(slots, max_len):
        admitted = acquire(slots, max_len)
        owner.update({sequence.slot: sequence for sequence in admitted})
        return admitted

    engine._scheduler._admit = admit
    propose = witness.propose

    def propose_for_owner(seen):
        before = len(witness.proposed)
        drafts = propose(seen)
        places.extend((owner[slot], *rest) for slot, *rest in witness.proposed[before:])
        return drafts

    witness.propose = propose_for_owner
    engine.run(requests)
    assert len(places) > 20
    chosen = rng.permutation(len(places))[:25]
    wrong = 0
    for place in chosen:
        sequence, row, anchor, made = places[place]
        assert [*sequence.ids, *sequence.tokens][row] == anchor
        wrong += made != drafts_alone(loaded, network, sequence, row, 6)
    assert wrong == 0


@pytest.mark.parametrize("rule", ["exact", "token", "block"])
@pytest.mark.parametrize("version", [1, 2])
def test_answers_are_those_of_plain_decoding(loaded, make_request, rng, version, rule):
    """A drafter that knows nothing changes nothing, in greedy and in exactly verified requests."""
    requests = []
    for i in range(9):
        sampling = Sampling(temperature=0.8, top_k=20, seed=i) if i % 3 == 0 and rule == "exact" else None
        requests.append(replace(make_request(i, prompt_len=1 + i, max_tokens=20), sampling=sampling))
    expected = Engine(loaded, EngineOptions(max_batch=2)).run(requests)
    witness = NetworkDrafts(random_drafter(version, int(rng.integers(1 << 30))), loaded.network)
    engine = Engine(loaded, EngineOptions(max_batch=4, verify=rule), drafter=chain(6, witness))
    for result, wanted in zip(engine.run(requests), expected, strict=True):
        assert (result.tokens, result.finish_reason) == (wanted.tokens, wanted.finish_reason)
    engine.check_integrity()
