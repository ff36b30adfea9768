"""The drafters against the published implementation: same weights, same features, same random numbers.

The peer is the package `dflash`. It drafts for one request at a time from a cache of its own; here all requests share
one batch and one arena, and what the peer never sees lies around as NaN: rejected rows, padding.

Where implementations of the format differ, or the peer from what is done here:
- `causal` of dflash_config is vLLM's, and the peer overlooks it. It is followed (see the last test).
- A window that is not causal reaches as far ahead as back, also inside the block, as in the peer's torch form; its MLX
  form lets a block see all of itself. They differ only where the window is shorter than the block.
- The peer looks for the highest logits after scaling and capping, here before: the same, unless the cap makes them
  equal.
- The peer draws DFlash's tokens by the request's top-k and top-p too. Here only the temperature is applied to drafts,
  as both do for DFlash2.
- In bf16 the peer adds up candidates' scores in bf16, here in fp32. All of this test is in fp32.
- Keys that the peer has a value for when they are missing (`block_size`, `rope_theta`, `head_dim`) must be there.
"""

import pytest
import torch
from drafter_made import RandomTarget, random_drafter, small

from ocria.spec.arena import DraftState
from ocria.spec.dflash2 import walk
from ocria.spec.draws import choose, gumbel_at

pytest.importorskip("transformers", reason="the peer needs transformers")
peer = pytest.importorskip("dflash.model", reason="the peer is not installed: pip install --no-deps dflash==0.1.0")

MAX_LEN = 64
TIE = 1e-4
"""Both are fp32 and sum in different orders: scores agree to about 1e-5, so of two that are nearer than this either
may be the higher one. Such cases are counted."""
MIXED = {"layer_types": ["sliding_attention"] * 2 + ["full_attention"], "use_sliding_window": True}
CASES = {
    "full": small(),
    "full-one-tap-b4": small(block_size=4, target_layer_ids=[5]),
    "full-one-head-b16": small(top={"num_key_value_heads": 1}, block_size=16, target_layer_ids=[1, 2, 5, 8]),
    "default-taps": small(target_layer_ids=None),
    "sliding-causal-then-full": small(top=MIXED | {"sliding_window": 9}),
    "window-within-the-block": small(top=MIXED | {"sliding_window": 4}, block_size=9),
    "explicit-not-causal": small(top=MIXED | {"sliding_window": 9, "is_causal": False}),
    "not-causal-window-within-the-block": small(
        top=MIXED | {"sliding_window": 5, "is_causal": False}, block_size=12, target_layer_ids=[0, 8]
    ),
    "all-causal": small(top={"is_causal": True}),
    "scaled-and-capped": small(output_multiplier=0.7, final_logit_softcapping=3.0, input_embedding_scale=1.7),
    "two": small(2),
    "two-sliding-b4": small(2, top=MIXED | {"sliding_window": 6}, block_size=4, target_layer_ids=[3]),
    "two-b16-three-taps-capped": small(
        2, block_size=16, conv_kernel_size=3, conv_group_size=16, selector_top_k=8, output_multiplier=0.6,
        final_logit_softcapping=4.0, input_embedding_scale=0.8, target_layer_ids=[1, 2, 5, 8],
    ),
    "two-legacy-causal": small(2, top=MIXED | {"sliding_window": 11, "is_causal": None}),
}  # fmt: skip


def theirs_of(data, network, target):
    """The peer's model with the weights of ours, and a stand-in for its target model."""
    made = peer.Qwen3Config(**{key: value for key, value in data.items() if value is not None})
    # None is not an absent key to the peer.
    made.dflash_config = {key: value for key, value in data["dflash_config"].items() if value is not None}
    made._attn_implementation = "sdpa"
    kind = peer.DFlash2DraftModel if "selector_rank" in data["dflash_config"] else peer.DFlashDraftModel
    model = kind(made).eval()
    weights = {f"{name}.weight" if "codebook" in name else name: w for name, w in network.state_dict().items()}
    model.load_state_dict(weights, strict=True)
    return model


class PeerRequest:
    """One request as the peer's generation loop runs it."""

    def __init__(self, model, target, scale):
        self.model, self.target, self.scale = model, target, scale
        self.cache = peer._make_cache(model.config)
        self.start = 0

    def hidden(self, features, anchor, rows):
        """Drafts' hidden rows `[1, rows - 1, H]` once `features` `[T, taps * H]` are committed."""
        first, self.start = self.start, self.start + features.shape[0]
        block = torch.full((1, rows), self.model.mask_token_id)
        block[0, 0] = anchor
        hidden = self.model(
            target_hidden=features[None],
            noise_embedding=self.target.embed(block) * self.scale,
            position_ids=torch.arange(first, self.start + rows)[None],
            past_key_values=self.cache,
            use_cache=True,
        )
        peer._crop_to(self.cache, self.start)
        return hidden[:, 1:]


def same_tokens(ours, theirs, scores):
    """Whether two tokens of a row are the same; a difference must be a tie of `scores` by token."""
    if ours == theirs:
        return True
    assert abs(float(scores[ours] - scores[theirs])) < TIE, (ours, theirs)
    print("a tie")
    return False


def noises(seed, position, ids, stream=1):
    return gumbel_at(torch.tensor(seed), position, ids, stream)


def gumbel_instead(monkeypatch, rows):
    """Let the peer draw by Gumbel-max with these rows of noise, in the order of its draws."""
    left = list(rows)
    monkeypatch.setattr(peer, "_sample_probs", lambda probs: (probs.log() + left.pop(0)).argmax(-1))


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_rounds(case, generator, monkeypatch):
    data = CASES[case]
    network, target = random_drafter(data, generator), RandomTarget(data, generator)
    config, two = network.config, "selector_rank" in data["dflash_config"]
    model = theirs_of(data, network, target)
    assert tuple(model.target_layer_ids) == config.target_layer_ids
    prompts = [1, 17, 6]
    requests = [PeerRequest(model, target, config.input_embedding_scale) for _ in prompts]
    network.prepare()
    state = DraftState.allocate(config, 5, MAX_LEN, torch.float32)
    slots = torch.tensor([3, 1, 4])
    length, committed, ties = torch.zeros(3, dtype=torch.int64), torch.tensor(prompts), 0

    for turn in range(6):
        rows = config.block_size if turn < 5 else 3  # the last block is cut short
        width = int(committed.max()) + 3
        features = torch.randn(3, width, config.feature_size, generator=generator)
        features[torch.arange(width) >= committed[:, None]] = torch.nan
        position = length[:, None] + torch.arange(width)
        network.extend(features, position, state, slots, length, committed)
        before, length = length, length + committed
        anchor = torch.randint(config.vocab_size, (3,), generator=generator)
        live = torch.ones(3, dtype=torch.bool)
        kv_len = int(length.max()) + rows
        hidden = network.draft(target, anchor, length, state, slots, length, live, rows, kv_len)
        for b, request in enumerate(requests):
            theirs = request.hidden(features[b, : committed[b]], anchor[b], rows)
            assert request.start == before[b] + committed[b]
            # Values are of size 1; sums of some hundred terms in another order, through three layers.
            torch.testing.assert_close(hidden[b : b + 1], theirs, rtol=2e-4, atol=2e-4)
            check = check_two if two else check_one
            ties += check(network, model, target, hidden[b : b + 1], theirs, anchor[b : b + 1], monkeypatch)
        committed = torch.randint(1, rows + 1, (3,), generator=generator)
        committed[turn % 3] = rows if turn % 2 else 1  # everything accepted, or nothing
        length_left = MAX_LEN - length - config.block_size
        committed = torch.minimum(committed, length_left.clamp(min=1))
    print(f"{ties} ties")
    assert ties <= 3


def check_one(network, model, target, hidden, theirs, anchor, monkeypatch):
    logits = model.compute_logits(theirs, target.logits)[0]
    torch.testing.assert_close(network.capped(target.logits(hidden))[0], logits, rtol=2e-4, atol=2e-4)
    ties = 0
    for ours, row in zip(network.propose(target, hidden, anchor).tokens[0], logits, strict=True):
        ties += not same_tokens(int(ours), int(row.argmax()), row)

    temperature = 0.7
    every = torch.arange(logits.shape[-1]).expand_as(logits)
    noise = noises(11, torch.arange(len(logits))[:, None], every)
    gumbel_instead(monkeypatch, [noise[None]])
    probs = peer._sampling_probs(logits[None], temperature)
    drawn = peer._sample_probs(probs)[0]
    scores = network.capped(target.logits(hidden))
    tokens, probability = choose(scores, torch.tensor([[temperature]]), noise[None])
    torch.testing.assert_close(probability, probs, rtol=1e-3, atol=1e-5)
    for ours, other, row in zip(tokens[0], drawn, logits / temperature + noise, strict=True):
        ties += not same_tokens(int(ours), int(other), row)
    return ties


def check_two(network, model, target, hidden, theirs, anchor, monkeypatch):
    ties = 0
    tokens, ids, _ = model.propose(theirs, anchor, target.logits, 0.0)
    ours = network.propose(target, hidden, anchor)
    cut = target.logits(theirs)[0].sort(dim=-1, descending=True).values
    if float((cut[:, ids.shape[2] - 1] - cut[:, ids.shape[2]]).min()) < TIE:
        print("a tie at the edge of the candidates")
        return 1
    assert torch.equal(ours.ids.sort(-1).values, ids.sort(-1).values)
    ties += walked_alike(model, target, theirs, anchor, ours.tokens[0], tokens[0], ids[0], 0.0, None)

    for temperature in (0.6, 1.4):
        noise = noises(11, torch.arange(ids.shape[1])[:, None], ids[0])  # in the order of the peer's candidates
        gumbel_instead(monkeypatch, [row[None] for row in noise])
        tokens, _, q = model.propose(theirs, anchor, target.logits, temperature)
        found = network.candidates(target, hidden, anchor)
        own = noises(11, torch.arange(ids.shape[1])[None, :, None], found.ids)
        ours = walk(found, torch.tensor([temperature]), own)
        differs = walked_alike(model, target, theirs, anchor, ours.tokens[0], tokens[0], ids[0], temperature, noise)
        ties += differs
        if not differs:
            at = torch.zeros(ids.shape[1], network.config.vocab_size)
            torch.testing.assert_close(
                at.scatter(1, ours.ids[0], ours.probability[0]), at.scatter(1, ids[0], q[0]), rtol=1e-3, atol=1e-5
            )
            torch.testing.assert_close(ours.probability.sum(-1), torch.ones(1, ids.shape[1]))
    return ties


def walked_alike(model, target, hidden, anchor, ours, theirs, ids, temperature, noise):
    """1 where two walks part at a tie, 0 where they are the same."""
    if torch.equal(ours, theirs):
        return 0
    at = int((ours != theirs).nonzero()[0])
    before = anchor if at == 0 else theirs[at - 1 : at]
    selector = model.candidate_selector
    logits = model.compute_logits(hidden, target.logits)[0, at, ids[at]]
    pairs = selector.successor_codebook(ids[at]) @ (
        selector.predecessor_codebook(before)[0] * selector.hidden_projection(hidden[0, at])
    )
    scores = logits + pairs
    if noise is not None:
        scores = scores / temperature + noise[at]
    by_token = torch.full((model.config.vocab_size,), -torch.inf).scatter(0, ids[at], scores)
    return int(not same_tokens(int(ours[at]), int(theirs[at]), by_token))


def test_the_peer_overlooks_one_of_three_places_for_the_block_rule():
    """`causal` of dflash_config is vLLM's; it is followed here, with `is_causal` before it."""
    data = small(top=MIXED | {"sliding_window": 9}, causal=False)
    generator = torch.Generator().manual_seed(0)
    network = random_drafter(data, generator)
    model = theirs_of(data, network, None)
    assert [layer.self_attn.is_causal for layer in model.layers] == [True, True, False]
    assert [rule.causal for rule in network.config.layers] == [False, False, False]
