"""The drafters bench on a made sample: what it collects, scores and reports."""

import json

import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

import drafters

from ocria.document.reader import NANO
from ocria.model.config import ModelConfig
from ocria.train.drafter.export import export
from ocria.train.drafter.shape import drafter_config, new_drafter


@pytest.fixture
def samples(tmp_path, monkeypatch):
    """One line image, and a page of two lines."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "samples" / "real"
    root.mkdir(parents=True)
    rows = []
    for name, group, texts in (("line", "lines_truth", ["Seven brown foxes"]), ("slip", "receipt_truth", ["A", "B"])):
        image = Image.new("L", (700, 140 * len(texts)), 255)
        for number, text in enumerate(texts):
            ImageDraw.Draw(image).text((60, 40 + 120 * number), 4 * text, fill=0, font=ImageFont.load_default(size=40))
        image.save(root / f"{name}.png", dpi=(300, 300))
        (root / f"{name}.txt").write_text("\n".join(texts))
        rows.append({"path": f"{name}.png", "group": group, "kind": "image", "truth": f"{name}.txt"})
    (root / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


def test_every_group_is_scored_and_what_was_read_is_kept(samples, tmp_path, capsys, monkeypatch):
    text = ModelConfig.from_file(NANO / "config.json").text
    config = drafter_config(text, version=2, mask_token_id=263, taps=[1], layers=1, block_size=6)
    export(new_drafter(config, torch.ones(256), torch.Generator().manual_seed(torch.seed() % 2**31)), config,
           tmp_path / "drafter")  # fmt: skip
    call = ["--samples", str(samples), "--drafter", str(tmp_path / "drafter"), "--group", "lines", "--group",
            "receipts", "--rows", "3", "6", "--threads", "1"]  # fmt: skip
    assert drafters.main(call) == 0
    out, err = capsys.readouterr()
    assert err.count("shard-") == 2
    scores = json.loads(out.splitlines()[-1])["scores"]
    assert len(scores) == 2
    for key, by_group in scores.items():
        rows = int(key.split()[-1])
        assert by_group.keys() == {"lines", "receipts", "all"}
        for score in by_group.values():
            assert score["tokens"] >= 5
            assert score["tokens"] / rows <= score["passes"] <= score["tokens"]
            assert len(score["curve"]) == rows - 1
        assert by_group["all"]["tokens"] == by_group["lines"]["tokens"] + by_group["receipts"]["tokens"]
    assert drafters.main(call) == 0
    assert capsys.readouterr().err.count("shard-") == 0  # nothing is read a second time


def test_samples_that_are_not_there_are_a_message(tmp_path, capsys):
    assert drafters.main(["--samples", str(tmp_path), "--drafter", str(tmp_path)]) == 2
    assert "no manifest.jsonl" in capsys.readouterr().err
