"""The drafters' trainer: its blocks are those of inference, its losses those of the papers, its runs go on."""

import argparse
import json

import pytest
import torch
from safetensors.torch import save_file

from ocria.document.reader import NANO
from ocria.errors import CheckpointError, UsageError
from ocria.model.config import ModelConfig
from ocria.spec.arena import DraftState
from ocria.spec.config import DrafterConfig
from ocria.spec.load import build, load_drafter
from ocria.train.drafter.blocks import IGNORED, Blocks, block_hidden, draw_blocks
from ocria.train.drafter.data import Answer, joined, read_shard, shard_path
from ocria.train.drafter.evaluate import evaluate
from ocria.train.drafter.export import export, train_on
from ocria.train.drafter.feed import Feed
from ocria.train.drafter.loss import candidates, losses, row_weights
from ocria.train.drafter.shape import drafter_config
from ocria.train.drafter.train import Run, arguments

WIDTH, VOCAB, TAPS = 48, 61, 2


@pytest.fixture
def generator() -> torch.Generator:
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)


def small(version: int, **top) -> dict:
    sizes = {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 6, "selector_top_k": 5}
    draft = {"block_size": 6, "mask_token_id": 60, "target_layer_ids": [0, 3]}
    return {
        "architectures": ["DFlashDraftModel" if version == 1 else "DFlash2DraftModel"],
        "hidden_size": WIDTH, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 10, "rms_norm_eps": 1e-6, "rope_theta": 5000.0,
        "max_position_embeddings": 512, "num_target_layers": 5, "vocab_size": VOCAB,
        "dflash_config": draft | (sizes if version == 2 else {}),
    } | top  # fmt: skip


class Target:
    """Embeddings and a head."""

    def __init__(self, generator: torch.Generator):
        self.embedding, self.head = (torch.randn(VOCAB, WIDTH, generator=generator) for _ in range(2))

    def embed(self, ids):
        return torch.nn.functional.embedding(ids, self.embedding)

    def logits(self, hidden):
        return hidden @ self.head.T / WIDTH**0.5


@torch.no_grad()
def drafter(data: dict, generator: torch.Generator):
    """Every weight is random, norms, convolutions and codebooks too."""
    network = build(DrafterConfig.from_dict(data))
    for name, p in network.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        p.copy_(1 + 0.3 * noise if p.ndim == 1 or "base_kernel" in name else 1.5 * noise / p.shape[1] ** 0.5)
    return network


def answer(prompt: int, output: int, generator: torch.Generator, width: int = TAPS * WIDTH) -> Answer:
    """Random tokens and features; positions begin anywhere and skip some, as behind an image."""
    rows = prompt + output
    position = torch.randint(1, 3, (rows - 1,), generator=generator).cumsum(0)
    position[prompt - 1 :] = position[prompt - 1] + torch.arange(output)
    features = torch.randn(rows - 1, width, generator=generator)
    return Answer(torch.randint(VOCAB - 1, (rows,), generator=generator), prompt, position, features)


SLIDING = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 4}


@pytest.mark.parametrize("data", [
    small(1), small(2, is_causal=False), small(1, **SLIDING), small(2, is_causal=False, **SLIDING),
], ids=["one", "two", "one-sliding-causal", "two-sliding"])  # fmt: skip
def test_blocks_of_training_are_those_of_inference(data, generator):
    network, target = drafter(data, generator), Target(generator)
    answers = [answer(int(p), int(n), generator) for p, n in torch.randint(2, 14, (4, 2), generator=generator)]
    size = network.config.block_size
    blocks = draw_blocks(answers, 3, size, generator, multiple=7)
    trained = block_hidden(network, target, blocks).detach().view(4, 3, size - 1, WIDTH)
    for number, one in enumerate(answers):
        for place in range(3):
            row = int(blocks.row[number, place])
            state = DraftState.allocate(network.config, 2, 60, torch.float32)
            slot, count = torch.tensor([1]), torch.tensor([row])
            with torch.no_grad():
                network.extend(one.features[None, :row], one.position[None, :row], state, slot, count * 0, count)
                drafted = network.draft(
                    target, one.ids[row : row + 1], one.position[row : row + 1], state, slot, count,
                    torch.tensor([True]), size, row + size,
                )  # fmt: skip
            # fp32; the sums over the context run in another order, over more zeros.
            torch.testing.assert_close(trained[number, place], drafted[0], rtol=2e-4, atol=2e-4)


def test_labels_stop_at_the_end_of_the_answer_and_the_prompts_last_row_is_always_an_anchor(generator):
    one, other = answer(3, 5, generator), answer(4, 2, generator)
    for _ in range(20):
        blocks = draw_blocks([one, other], 4, 5, generator)
        assert blocks.row[:, 0].tolist() == [2, 3]
        for number, whole in enumerate((one, other)):
            for place, row in enumerate(blocks.row[number].tolist()):
                assert whole.prompt - 1 <= row < len(whole.ids) - 1  # behind the last token nothing is to be drafted
                assert blocks.anchor[number, place] == whole.ids[row]
                assert blocks.start[number, place] == whole.position[row]
                behind = whole.ids[row + 1 : row + 5].tolist()
                assert blocks.labels[number, place].tolist() == behind + [IGNORED] * (4 - len(behind))
        assert blocks.features.shape[:2] == (2, 7)
        assert not blocks.features[1, 5:].any()


def test_weights_fall_by_e_in_gamma_rows_and_skip_what_has_no_label():
    labels = torch.tensor([[7, 7, 7], [7, IGNORED, IGNORED]])
    weight = row_weights(labels, gamma=2.0)
    raw = torch.tensor([[1.0, 0.60653, 0.36788], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(weight, raw / 2.97441, rtol=1e-4, atol=1e-6)


def test_a_label_that_is_no_candidate_takes_the_last_place():
    logits = torch.tensor([[[0.0, 3.0, 2.0, 1.0]] * 4])
    labels = torch.tensor([[2, 0, 1, IGNORED]])
    ids, place = candidates(logits, labels, top_k=2)
    assert ids.tolist() == [[[1, 2], [1, 0], [1, 2], [1, 2]]]
    assert place.tolist() == [[1, 1, 0, IGNORED]]


def test_losses_against_a_plain_loop(generator):
    network, target = drafter(small(2), generator), Target(generator)
    hidden = torch.randn(3, 5, WIDTH, generator=generator)
    anchor = torch.randint(VOCAB, (3,), generator=generator)
    labels = torch.randint(VOCAB, (3, 5), generator=generator)
    labels[1, 3:] = IGNORED
    made = losses(network, target, hidden, anchor, labels, gamma=3.0)
    selector = network.candidate_selector
    weights = unary = chosen = 0.0
    for n in range(3):
        before = anchor[n]
        for i in range(5):
            if labels[n, i] == IGNORED:
                continue
            weight, label = float(torch.exp(torch.tensor(-i / 3.0))), int(labels[n, i])
            logits = target.logits(hidden[n, i])
            best = logits.topk(5).indices.tolist()
            if label not in best:
                best[-1] = label
            state = selector.hidden_projection(hidden[n, i]) * selector.predecessor_codebook[before]
            scores = torch.stack([logits[c] + state @ selector.successor_codebook[c] for c in best])
            unary += weight * float(-logits.detach().log_softmax(0)[label])
            chosen += weight * float(-scores.detach().log_softmax(0)[best.index(label)])
            weights, before = weights + weight, labels[n, i]
    # fp32 sums in another order.
    assert made.unary.item() == pytest.approx(unary / weights, rel=1e-4)
    assert made.selector.item() == pytest.approx(chosen / weights, rel=1e-4)
    assert losses(drafter(small(1), generator), target, hidden, anchor, labels, 3.0).selector == 0


def test_dflash2_begins_as_the_dflash_it_came_from(tmp_path, generator):
    # bf16 values, so that the export loses nothing.
    first, target = drafter(small(1), generator).bfloat16().float(), Target(generator)
    export(first, small(1, is_causal=False), tmp_path)
    first, _ = train_on(tmp_path, 1, generator)
    second, config = train_on(tmp_path, 2, generator)
    assert DrafterConfig.from_dict(config).version == 2
    answers = [answer(5, 9, generator), answer(3, 12, generator)]
    blocks = draw_blocks(answers, 4, 6, generator)
    anchor = blocks.anchor.flatten()
    with torch.no_grad():
        one, two = (block_hidden(network, target, blocks) for network in (first, second))
        assert torch.equal(one, two)
        drafts = [n.propose(target, h, anchor).tokens for n, h in ((first, one), (second, two))]
    assert torch.equal(*drafts)
    learnt = losses(second, target, block_hidden(second, target, blocks), anchor, blocks.labels.flatten(0, 1), 7.0)
    learnt.total.backward()
    silent = [name for name, p in second.named_parameters() if p.grad is None or not p.grad.any()]
    # With codebooks of no effect nothing flows back through them yet.
    assert {name.rpartition(".")[0] or name for name in silent} <= {
        "candidate_selector.hidden_projection", "candidate_selector"
    }  # fmt: skip
    export(second, config, tmp_path / "second")
    with pytest.raises(CheckpointError, match="cannot become"):
        train_on(tmp_path / "second", 1, generator)


def test_weights_that_are_not_the_configs_are_refused(tmp_path, generator):
    export(drafter(small(1), generator), small(1), tmp_path)
    tensors = {name: p for name, p in drafter(small(1), generator).state_dict().items() if "q_proj" not in name}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not belong"):
        train_on(tmp_path, 2, generator)


def counting(output: int, generator: torch.Generator) -> Answer:
    """Seven letters, round and round: all drafts follow from the anchor."""
    made = answer(4, output, generator, width=256)
    start = int(torch.randint(7, (), generator=generator))
    made.ids[:] = 97 + (start + torch.arange(output + 4)) % 7
    made.features[:] = torch.nn.functional.one_hot(made.ids[:-1], 256)
    return made


@pytest.fixture
def alphabet(tmp_path, generator):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(2):
        answers = [counting(int(n), generator) for n in torch.randint(8, 30, (24,), generator=generator)]
        answers = [Answer(a.ids, a.prompt, a.position, a.features.bfloat16()) for a in answers]
        save_file(joined(answers), shard_path(data, number))
    return data


def run(data, out, *more) -> Run:
    options = ["--taps", "2", "--layers", "1", "--block-size", "5", "--blocks", "32", "--lr", "1e-2"]
    return Run(arguments(["--target", str(NANO), "--data", str(data), "--out", str(out), *options, *more]))


@pytest.mark.parametrize("version", [1, 2])
def test_training_makes_drafts_longer(alphabet, tmp_path, version):
    trained = run(alphabet, tmp_path / "run", "--version", str(version), "--steps", "80", "--no-autocast")
    answers = [a for number in range(2) for a in read_shard(shard_path(alphabet, number))]
    before = evaluate(trained.drafter, trained.target, answers, 5)
    assert before.accept_length < 2
    trained.train()
    target = ModelConfig.from_file(NANO / "config.json").text
    loaded = load_drafter(tmp_path / "run" / "export", target, dtype=torch.float32)
    assert loaded.config.version == version
    after = evaluate(loaded.network, trained.target, answers, 5)
    assert after.tokens == before.tokens == sum(len(a.ids) - a.prompt for a in answers)
    assert after.accept_length > 3  # of at most 5, and less at the ends of answers


def test_a_run_that_was_stopped_ends_as_one_that_was_not(alphabet, tmp_path):
    def stepped(out, count):
        made = run(alphabet, out, "--steps", "8", "--no-autocast")
        for _ in range(count):
            made.step(made.feed.batch(made.steps))
        made.save()
        return made

    whole = stepped(tmp_path / "whole", 8)
    stepped(tmp_path / "parts", 3)
    parts = stepped(tmp_path / "parts", 5)
    assert parts.steps == whole.steps == 8
    ours, theirs = parts.drafter.state_dict(), whole.drafter.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_batches_depend_on_their_number_alone(alphabet):
    feeds = [Feed(alphabet, 32, 5, seed=3) for _ in range(2)]
    list(map(feeds[1].batch, range(4)))
    one, same, other = feeds[0].batch(9), feeds[1].batch(9), feeds[1].batch(10)
    names = Blocks.__dataclass_fields__
    assert all(torch.equal(getattr(one, name), getattr(same, name)) for name in names)
    assert one.labels.shape != other.labels.shape or not torch.equal(one.labels, other.labels)
    shorter = Feed(alphabet, 32, 5, seed=3, shorter=0.5)
    sizes = [shorter.batch(number).labels.shape[2] + 1 for number in range(40)]
    assert set(sizes) <= {2, 3, 4, 5}
    assert 5 < sizes.count(5) < 35  # 20 on average, with a deviation of 3
    assert {feeds[0].batch(number).labels.shape[2] for number in range(9)} == {4}
    with pytest.raises(UsageError, match="no shards"):
        Feed(alphabet / "nothing", 32, 5, seed=3)


def test_accept_length_by_hand(generator):
    """A drafter that is right for two tokens, then wrong."""

    class Two:
        dtype = torch.float32
        config = argparse.Namespace(
            num_hidden_layers=1, block_size=5, num_key_value_heads=1, head_dim=2
        )  # fmt: skip
        seen: list[int]  # rows of context

        def extend(self, features, position, state, slots, start, count):
            self.seen = (start + count).tolist()

        def draft(self, target, anchor, position, state, slots, length, live, rows, kv_len):
            assert [n for n, on in zip(self.seen, live.tolist(), strict=True) if on] == length[live].tolist()
            return anchor

        def propose(self, target, hidden, anchor):
            drafts = anchor[:, None] + torch.arange(1, 5)
            drafts[:, 2] = 0
            return argparse.Namespace(tokens=drafts)

    made = answer(3, 8, generator)
    made.ids[2:] = 10 + torch.arange(9)
    score = evaluate(Two(), None, [made], 5)
    assert (score.passes, score.tokens) == (3, 8)  # 3 + 3 + 2: the last pass ends with the answer
    assert score.accept_length == pytest.approx(8 / 3)
    assert score.curve == (1, 1, 0, 0)


def test_a_new_config_is_one_that_drafters_have():
    text = ModelConfig.from_file(NANO / "config.json").text
    for version in (1, 2):
        data = drafter_config(text, version=version, mask_token_id=263, taps=[0, 3], layers=2, block_size=16)
        config = DrafterConfig.from_dict(json.loads(json.dumps(data)))
        config.check_target(text)
        assert (config.version, config.num_hidden_layers, config.feature_size) == (version, 2, 512)
        assert not any(rule.causal or rule.window for rule in config.layers)


@pytest.mark.parametrize(("layers", "kept"), [(1, [0]), (2, [0, 3]), (3, [0, 2, 3])])
def test_a_drafter_loses_layers_and_nothing_else(tmp_path, generator, layers, kept):
    sizes = small(2, num_hidden_layers=4, layer_types=["full_attention"] * 4)
    export(drafter(sizes, generator), sizes, tmp_path)
    whole, _ = train_on(tmp_path, 2, generator)
    fewer, config = train_on(tmp_path, 2, generator, layers)
    assert len(DrafterConfig.from_dict(config).layers) == layers == len(config["layer_types"]) == len(fewer.layers)
    for new, old in enumerate(kept):
        expected = whole.layers[old].state_dict()
        assert all(torch.equal(p, expected[name]) for name, p in fewer.layers[new].state_dict().items())
    rest = {name: p for name, p in whole.state_dict().items() if not name.startswith("layers.")}
    assert all(torch.equal(fewer.state_dict()[name], p) for name, p in rest.items())
    with pytest.raises(CheckpointError, match="4 layers"):
        train_on(tmp_path, 2, generator, 5)
