"""The trainer: optimiser, losses, resuming, averaging over processes, and the exported checkpoint."""

import argparse
import json

import numpy as np
import pytest
import torch

from ocria.model.config import ModelConfig
from ocria.model.image import ImageConfig, preprocess
from ocria.model.line import HEIGHT
from ocria.model.network import Qwen35
from ocria.train import vocabulary as V
from ocria.train.architecture import model_config
from ocria.train.batches import Batch, batches, usable
from ocria.train.charset import CHARSET
from ocria.train.evaluate import distance, greedy
from ocria.train.export import export, load_exported, network_tensors
from ocria.train.learner import Learner
from ocria.train.muon import Muon, orthogonalise
from ocria.train.nano import Run, split_parameters
from ocria.train.together import Together


@pytest.fixture(scope="module")
def learner():
    torch.manual_seed(torch.seed() % 2**31)
    return Learner(model_config()).eval()


def random_lines(count: int, tokens: int) -> np.ndarray:
    return np.random.default_rng().integers(0, 256, (count, HEIGHT, tokens * HEIGHT), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(3, 17, 40), (1, 64, 9), (2, 31, 31)])
def test_orthogonalised_updates_have_singular_values_near_one(shape):
    singular = torch.linalg.svdvals(orthogonalise(torch.randn(shape), steps=6).float())
    # The quintic iteration circles around 1 instead of converging; a small start value needs all its steps.
    assert singular.max() < 1.35
    assert singular.median() > 0.6


def test_muon_moves_by_its_rate_and_forgets_nothing_it_should_keep():
    weight = torch.nn.Parameter(torch.randn(24, 50))
    before = weight.detach().clone()
    optimiser = Muon([weight], lr=0.01, weight_decay=0.0, steps=6)
    weight.grad = torch.randn(24, 50)
    optimiser.step()
    rms = (weight.detach() - before).square().mean().sqrt()
    assert 0.2 * 0.01 * 0.6 < rms < 0.2 * 0.01 * 1.35  # singular values of the update, as above


def test_ctc_labels_come_back_through_repeats_and_blanks():
    rng = np.random.default_rng()
    text = "".join(rng.choice(list(CHARSET), 40)) + "ll00"
    frames = []
    for label in V.ctc_labels(text):
        frames += [V.CTC_BLANK] * int(rng.integers(1, 3)) + [label] * int(rng.integers(1, 4))
    assert V.ctc_text(frames) == text


def test_distance_counts_edits():
    rng = np.random.default_rng()
    a, b = ("".join(rng.choice(list("abcd "), n)) for n in rng.integers(0, 30, 2))
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    assert distance(a, b) == table[-1, -1]


def test_batches_hold_lines_of_one_width_and_all_the_samples():
    rng = np.random.default_rng()

    class Sample:
        def __init__(self, i):
            self.image = rng.integers(0, 256, (30, int(rng.integers(20, 700))), dtype=np.uint8)
            self.text = str(i)

    out = list(batches((Sample(i) for i in range(120)), tokens=40))
    assert all(len(batch.images) == len(batch.texts) for batch in out)
    seen = [text for batch in out for text in batch.texts]
    assert len(seen) == len(set(seen)) > 60
    assert all(batch.images.shape[2] // HEIGHT * len(batch.texts) <= max(40, batch.images.shape[2] // HEIGHT)
               for batch in out)


def test_a_text_that_does_not_fit_its_frames_is_refused():
    narrow = np.full((40, 30), 255, np.uint8)
    narrow[10:30, 5:25] = 0
    assert usable(narrow, "ab") is not None
    assert usable(narrow, "a" * 30) is None
    assert usable(narrow, "") is None


@torch.inference_mode()
def test_greedy_decoding_through_the_cache_equals_the_teacher_forced_pass(learner):
    features = learner.encode(torch.from_numpy(random_lines(3, 4)))
    # A random decoder would stop or repeat at once; louder embeddings make it wander.
    for text, row in zip(greedy(learner, features), range(3), strict=True):
        codes = text.encode()
        if b"\xef\xbf\xbd" in codes or not codes:  # bytes that are no UTF-8 cannot be taken back
            continue
        hidden = learner.decode(features[row : row + 1], torch.tensor([list(codes)]))
        best = learner.network.logits(hidden[0, features.shape[1] + 1 :]).argmax(-1)
        assert best[: len(codes)].tolist() == list(codes)


@torch.inference_mode()
def test_gray_training_features_equal_those_of_the_exported_checkpoint(learner, tmp_path):
    export(learner, tmp_path)
    config = ModelConfig.from_file(tmp_path / "config.json")
    network = Qwen35(config).eval()
    network.load_state_dict({name: t.float() for name, t in network_tensors(learner).items()})
    lines = random_lines(2, 4)
    image = ImageConfig.from_file(tmp_path / "preprocessor_config.json")
    pixels, grids = zip(*(preprocess(line, image) for line in lines), strict=True)
    grids = [tuple(map(int, np.asarray(grid).reshape(-1))) for grid in grids]
    read = network.encode_image(torch.cat([torch.as_tensor(p) for p in pixels]), grids)
    trained = learner.encode(torch.from_numpy(lines)).flatten(0, 1)
    # Weights were rounded to bf16 (2^-9 relative), through four blocks.
    assert (read - trained).abs().max() < 0.05 * trained.abs().max()


def test_exported_tokenizer_is_bytes(tmp_path, learner):
    export(learner, tmp_path)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "".join(np.random.default_rng().choice(list(CHARSET), 60))
    assert tokenizer.encode(text).ids == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text
    assert tokenizer.encode("<|vision_start|>a<|im_end|>").ids == [V.VISION_START, ord("a"), V.IM_END]
    assert json.loads((tmp_path / "config.json").read_text())["text_config"]["vocab_size"] == V.VOCAB


def settings(out, **changes) -> argparse.Namespace:
    values = {"out": out, "minutes": 60.0, "seed": 3, "processes": 1, "port": 0, "lr": 6e-3, "init": None,
              "tokens": 100, "workers": 1, "surplus": 1, "eval_minutes": 5.0, "save_minutes": 5.0, "decay_from": 0.6,
              "wall_clock": False}  # fmt: skip
    return argparse.Namespace(**values | changes)


def test_both_losses_fall_and_a_run_continues_where_it_stopped(tmp_path):
    run = Run(settings(tmp_path), 0)
    run.elapsed = 60 * 60 * 0.5  # in the joint stage
    batch = Batch(random_lines(4, 4), ["one two", "Three, 4", "five — six", "“7”"])
    first = run.step(batch)
    for _ in range(25):
        last = run.step(batch)
    assert last[0] < 0.7 * first[0]
    assert last[1] < 0.7 * first[1]
    run.save()
    again = Run(settings(tmp_path), 0)
    assert (again.steps, again.lines, again.elapsed) == (run.steps, run.lines, run.elapsed)
    assert again.step(batch) == pytest.approx(run.step(batch), rel=0.05)  # bf16 sums


@torch.inference_mode()
def test_a_run_started_from_exported_weights_computes_what_they_compute(learner, tmp_path):
    export(learner, tmp_path / "export")
    run = Run(settings(tmp_path / "run", init=tmp_path / "export"), 0)
    assert run.joint
    rounded = Learner(model_config()).eval()
    rounded.load_state_dict({name: t if name.endswith(("A_log", "linear_attn.norm.weight")) else t.bfloat16().float()
                             for name, t in learner.state_dict().items()})  # fmt: skip
    lines = torch.from_numpy(random_lines(2, 4))
    given = torch.randint(0, 256, (2, 5))
    features, expected = run.learner.eval().encode(lines), rounded.encode(lines)
    # The patch embedding is a sum of six slices, each rounded to bf16 (2^-9 relative) after a division by six.
    torch.testing.assert_close(features, expected, rtol=0, atol=0.02 * expected.abs().max().item())
    torch.testing.assert_close(run.learner.ctc_logits(expected), rounded.ctc_logits(expected))
    torch.testing.assert_close(run.learner.decode(expected, given), rounded.decode(expected, given))
    (tmp_path / "export" / "ctc.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        load_exported(run.learner, tmp_path / "export")


def test_the_clock_of_a_paused_run_goes_on(tmp_path):
    run = Run(settings(tmp_path, wall_clock=True, minutes=60.0, decay_from=0.5), 0)
    run.steps, run.started = 10_000, run.started - 60 * 45  # three quarters of an hour ago
    run.save()
    again = Run(settings(tmp_path, wall_clock=True, minutes=60.0, decay_from=0.5, eval_minutes=1e9), 0)
    batch = Batch(random_lines(2, 4), ["one", "two"])
    seen = []

    def source():
        yield batch
        seen.append((again.progress, again.rate()))
        again.started -= 60 * 30  # stopped for half an hour
        yield batch

    again.report = lambda: seen.append(again.progress)
    again.stage(source(), 1.0)
    (progress, rate), end = seen
    assert progress == pytest.approx(0.75, abs=0.05)  # a step takes seconds
    assert rate == pytest.approx(2 * (1 - progress))
    assert end > 1


def test_every_parameter_has_one_optimiser(learner):
    matrices, rest = split_parameters(learner)
    assert {id(p) for p in matrices}.isdisjoint(id(p) for p in rest)
    assert len(matrices) + len(rest) == len(list(learner.parameters()))


def _meet(rank, port, folder):
    torch.set_num_threads(1)
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for p in module.parameters():
            p.fill_(rank)
    together = Together(rank, 2, port)
    for _ in range(1 + 2 * rank):  # one step of process 0, three of process 1
        together.due()
    clock, lines = together.meet(module, 10.0 + rank, 100 + rank)
    torch.save((clock, lines, [p.detach() for p in module.parameters()]), folder / f"{rank}.pt")
    together.close()


def test_processes_average_by_the_steps_they_took(tmp_path):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(_meet, args=(port, tmp_path), nprocs=2)
    for rank in range(2):
        clock, lines, parameters = torch.load(tmp_path / f"{rank}.pt")
        assert (clock, lines) == (10.0, 201)
        for p in parameters:
            torch.testing.assert_close(p, torch.full_like(p, 0.75))
