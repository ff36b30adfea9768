"""The speed bench: its sums, its refusal to report, and one real run with the shipped model."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers", reason="the bench extra is not installed")

import throughput

SCAN = Path(__file__).resolve().parents[2] / "examples" / "scan.png"


class Fake:
    """A side that gives fixed token ids and counts its calls."""

    def __init__(self, outputs, log=None, name=""):
        self.outputs, self.log, self.name = outputs, log if log is not None else [], name
        self.loaded = SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda ids: " ".join(map(str, ids))))

    def generate(self, images, batch):
        self.log.append((self.name, batch))
        return self.outputs[: len(images)]


def test_rows_are_medians_and_ratios_within_a_repeat():
    seconds = {8: {"ocria": [1.0, 2.0, 4.0], "transformers": [3.0, 4.0, 20.0]}}
    (row,) = throughput.rows(seconds, tokens=600, lines=60, pages=3)
    assert row["ocria"]["tokens_per_s"] == 300
    assert row["ocria"]["pages_per_min"] == 90
    assert row["transformers"]["lines_per_s"] == 15
    assert row["ratios"] == {"ocria": {"median": 3.0, "least": 2.0, "greatest": 5.0}}


def test_sides_take_turns():
    log = []
    sides = {name: Fake([[1]], log, name) for name in ("ocria", "transformers")}
    seconds = throughput.measure(sides, [None], [1, 4], repeats=2)
    first, second = log[:4], log[4:]
    assert [name for name, _ in first] == ["ocria", "transformers"] * 2
    assert [name for name, _ in second] == ["transformers", "ocria"] * 2
    assert {batch: len(sides["ocria"]) for batch, sides in seconds.items()} == {1: 2, 4: 2}


def test_one_differing_line_is_found():
    good, bad, peer = Fake([[1, 2], [3, 5]]), Fake([[1, 2], [3, 4]]), Fake([[1, 2], [3, 5]])
    sides = {"ocria": good, "ocria compiled": bad, "transformers": peer}
    found = throughput.differences(sides, [None, None], [1])
    assert [(one.line, one.name, one.ours, one.theirs) for one in found] == [(1, "ocria compiled", "3 4", "3 5")]


def test_no_lines_is_an_error(tmp_path, capsys):
    from PIL import Image

    blank = tmp_path / "blank.png"
    Image.new("L", (800, 600), 255).save(blank)
    assert throughput.main([str(blank)]) == 2
    assert "no text lines" in capsys.readouterr().err


def test_a_real_run_reads_alike(capsys):
    arguments = ["--limit", "3", "--batch", "2", "--repeats", "1", "--threads", "1", "--profile"]
    status = throughput.main([str(SCAN), *arguments])
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status == 0, document
    assert document["same_output"] is True
    assert document["batches"][0]["ocria"]["tokens_per_s"] > 0
    parts = document["profile"]["2"]["ocria"]
    assert set(parts) == {"encoder", "prefill", "steps", "host"}
    assert all(seconds > 0 for seconds in parts.values())


def test_different_outputs_print_no_speed(monkeypatch, capsys):
    import generate

    real = generate.Transformers.generate
    monkeypatch.setattr(generate.Transformers, "generate", lambda *a: [ids[:-1] for ids in real(*a)])
    assert throughput.main([str(SCAN), "--limit", "2", "--batch", "2", "--repeats", "1"]) == 1
    out = capsys.readouterr().out
    assert "tokens_per_s" not in out
    assert json.loads(out.splitlines()[-1])["same_output"] is False
