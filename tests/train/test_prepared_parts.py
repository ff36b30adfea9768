"""A prepared run, part by part: the pool of lines, their fresh looks, the session, what it brings back."""

import argparse
import itertools
import json
import queue
import random
import signal
import tarfile
import time
from collections import Counter

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")

from ocria.model.line import BUCKET, HEIGHT
from ocria.ops.register import INTERPRETED, force_kernels, torch_forms, uses_kernels
from ocria.train import corpus, fonts
from ocria.train.architecture import model_config
from ocria.train.batches import Batch
from ocria.train.export import load_exported
from ocria.train.learner import Learner
from ocria.train.prepared import results, session
from ocria.train.prepared.augment import augment
from ocria.train.prepared.pool import Pool


def lines(count: int, buckets: int, name: str = "") -> Batch:
    """Random ink in the middle of white paper."""
    images = np.full((count, HEIGHT, buckets * BUCKET), 255, np.uint8)
    images[:, 8:-8, 12:-12] = np.random.default_rng().integers(0, 256, images[:, 8:-8, 12:-12].shape, dtype=np.uint8)
    return Batch(images, [f"{name}{i}" for i in range(count)])


def test_new_lines_go_first_and_each_is_drawn_as_often_as_it_may():
    seed = random.randrange(1 << 30)
    pool = Pool(tokens=32, repeats=3, capacity=10**9, seed=seed)
    for group in range(20):
        pool.add(lines(5, 1 + group % 3, f"{group}/"))
    drawn, fresh_over = Counter(), False
    while (draw := pool.draw()) is not None:
        texts = draw.batch.texts
        tokens = len(texts) * draw.batch.images.shape[2] // HEIGHT
        assert tokens <= 32 < tokens + draw.batch.images.shape[2] // HEIGHT, f"seed {seed}"
        new = [text for text in texts if not drawn[text]]
        assert len(new) == len(texts) - draw.replayed
        assert texts[: len(new)] == new, "new lines stand in front"
        fresh_over = fresh_over or draw.replayed > 0
        assert not fresh_over or len(new) < len(texts), "a full batch of new lines was left behind"
        drawn.update(texts)
    assert pool.rendered == 100
    assert max(drawn.values()) == 3
    assert pool.replayed == sum(drawn.values()) - len(drawn)
    # What is left of a width is less than a batch of it: at most 8, 4 and 2 lines.
    assert sum(3 - drawn[f"{group}/{i}"] for group in range(20) for i in range(5)) <= 3 * (8 + 4 + 2)


def test_a_full_pool_gives_up_what_was_seen_longest_ago():
    line = HEIGHT * BUCKET
    pool = Pool(tokens=16, repeats=9, capacity=10 * line, seed=0)
    for _ in range(5):
        pool.add(lines(4, 1))
        pool.draw()
    assert pool.held == 10 * line
    pool.clear()
    assert pool.held == 0
    assert pool.draw() is None


def test_fresh_looks_differ_and_stay_readable():
    generator = torch.Generator().manual_seed(torch.seed() % 2**31)
    images = torch.full((6, HEIGHT, 320), 255, dtype=torch.uint8)
    images[1:, 10:30, 20:300:8] = 0  # strokes
    images[1:, 10:30, 21:300:8] = 0
    changed = augment(images, generator)
    assert changed.shape == images.shape
    assert changed.dtype == torch.uint8
    assert (255 - changed[0].float()).mean() < 12, "paper is paper, up to noise"
    ink = (255 - changed[1:].float()).mean((1, 2)) / (255 - images[1].float()).mean()
    assert ink.min() > 0.4
    assert ink.max() < 2.5
    assert all((a != b).any() for a, b in itertools.combinations(changed[1:], 2))


@torch.inference_mode()
def test_a_batch_is_encoded_like_its_lines_one_by_one():
    learner = Learner(model_config()).eval()
    images = torch.from_numpy(lines(3, 2).images)
    alone = torch.cat([learner.encode(image[None]) for image in images])
    torch.testing.assert_close(learner.encode(images), alone, rtol=1e-3, atol=1e-4)  # fp32, other orders of sums


@pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
def test_torch_forms_win_over_kernels():
    some = torch.zeros(1)
    with force_kernels():
        assert uses_kernels(some)
        with torch_forms():
            assert not uses_kernels(some)
        assert uses_kernels(some)


def test_a_sealed_cache_is_all_there_is(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "Some.ttf").write_bytes(b"")
    (tmp_path / "sealed").touch()
    monkeypatch.setenv("OCRIA_TRAIN_CACHE", str(tmp_path))
    monkeypatch.setenv("OCRIA_FONTS", str(tmp_path / "mine"))
    fonts._font_files.cache_clear()
    try:
        assert list(fonts._font_files()) == ["Some.ttf"]
    finally:
        fonts._font_files.cache_clear()
    with pytest.raises(FileNotFoundError):
        corpus._cached("code")  # Python's own library, which is always there
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".txt"] == []


class Workers:
    """Stands in for the rendering processes: endless groups of a few texts."""

    alive = 1

    def __init__(self, seed, count, longest):
        self.longest = argparse.Namespace(value=longest)
        self.queue = self

    def get_nowait(self):
        raise queue.Empty

    def get(self, timeout):
        return self.longest.value, lines(3, 1 + random.randrange(2), "ab")

    def close(self):
        self.alive = 0


def settings(out, **changes) -> argparse.Namespace:
    values = {"out": out, "minutes": 600.0, "reserve": 60.0, "device": "cpu", "workers": 1, "tokens": 24, "repeats": 2,
              "pool_bytes": 10**8, "lr": 1e-3, "decay_from": 0.4, "seed": 3, "log_seconds": 0.0, "save_seconds": 1e9,
              "score_lines": 0, "steps": 4, "init": None, "started": time.time()}  # fmt: skip
    return argparse.Namespace(**values | changes)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A function that makes sessions; signal handlers and threads as before afterwards."""
    monkeypatch.setattr(session, "Workers", Workers)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield lambda **changes: session.Session(settings(tmp_path / "out", **changes))
    for number, handler in before.items():
        signal.signal(number, handler)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def brought_back(out, tmp_path) -> Learner:
    with tarfile.open(out / "export.tar") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    learner = Learner(model_config())
    load_exported(learner, tmp_path / "unpacked" / "export")
    return learner


def same_weights(a: Learner, b: Learner) -> bool:
    """Up to bf16; of the patch embedding a sum of six rounded slices."""
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.allclose(x.float(), y.float(), rtol=0.02, atol=1e-3) for x, y in pairs)


@pytest.mark.parametrize("bf16", [False, True])
def test_a_session_trains_both_losses_and_brings_its_weights_back(started, tmp_path, monkeypatch, bf16):
    monkeypatch.setattr(session, "fast_bf16", lambda device: bf16)
    monkeypatch.setattr(session, "JOINT_FROM", 0.0)
    run = started()
    before = {name: t.clone() for name, t in run.learner.state_dict().items()}
    assert run.run() == 0
    assert sum(not torch.equal(before[name], t) for name, t in run.learner.state_dict().items()) > 0.9 * len(before)
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["steps"] == 4
    assert scores["lines_replayed"] > 0
    assert scores["lines_trained"] >= 4 * 3
    log = (tmp_path / "out" / "log.txt").read_text()
    assert log.count("  trained ") == 4, "each step"
    assert "nan" not in log
    assert same_weights(brought_back(tmp_path / "out", tmp_path), run.learner)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"export.tar", "log.txt", "scores.json"}


def test_a_session_that_is_ended_or_fails_keeps_what_it_learned(started, tmp_path, monkeypatch):
    run = started(steps=None)
    real = run.step

    def step(ready):
        if run.steps == 2:
            signal.raise_signal(signal.SIGTERM)
        return real(ready)

    run.step = step
    assert run.run() == 143
    assert json.loads((tmp_path / "out" / "scores.json").read_text())["stopped"]
    assert same_weights(brought_back(tmp_path / "out", tmp_path), run.learner)

    run = started(steps=None)
    real = run.step

    def broken(ready):
        if run.steps == 1:
            raise ZeroDivisionError
        return real(ready)

    run.step = broken
    with pytest.raises(ZeroDivisionError):
        run.run()
    assert same_weights(brought_back(tmp_path / "out", tmp_path), run.learner)


def test_after_a_nan_the_newest_good_weights_go_on(started, tmp_path):
    run = started()
    run.save()
    kept = {name: t.clone() for name, t in run.learner.state_dict().items()}
    with torch.no_grad():
        run.learner.ctc.bias[3] = float("nan")
    run.save()
    assert all(torch.equal(kept[name], t) for name, t in run.learner.state_dict().items())
    assert same_weights(brought_back(tmp_path / "out", tmp_path), run.learner)


def test_large_weights_come_in_parts(tmp_path, monkeypatch):
    data = np.random.default_rng().bytes(2500)
    (tmp_path / "source").write_bytes(data)
    monkeypatch.setattr(results, "PART", 1000)
    results._deliver(tmp_path / "source", tmp_path / "export.tar")
    parts = sorted(tmp_path.glob("export.tar*"))
    assert [part.name for part in parts] == [f"export.tar.0{i}" for i in range(3)]
    assert b"".join(part.read_bytes() for part in parts) == data


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_session_on_a_gpu(started, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "JOINT_FROM", 0.0)
    run = started(device="cuda", steps=30)
    assert run.run() == 0
    assert "nan" not in (tmp_path / "out" / "log.txt").read_text()
    assert same_weights(brought_back(tmp_path / "out", tmp_path), run.learner.cpu())
    held_out = [lines(2, 1)]
    run.learner.cuda()
    with torch_forms():
        on_gpu = session.evaluate(run.learner, held_out, decode=True)
    on_cpu = session.evaluate(run.learner.cpu(), held_out, decode=False)
    assert on_gpu.ctc == pytest.approx(on_cpu.ctc, abs=50)  # of four characters; TF32 may turn one
