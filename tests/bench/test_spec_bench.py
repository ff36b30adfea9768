"""The bench of drafters: its gate, its sums, and one real run with the shipped model."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import spec
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def result(tokens, finish_reason="stop"):
    return SimpleNamespace(tokens=tuple(tokens), finish_reason=finish_reason)


class Teacher:
    """Says the same regrets of every answer."""

    def __init__(self, regrets):
        self.regrets = lambda request, result: torch.tensor(regrets)


@pytest.mark.parametrize(
    ("a", "b", "regrets", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], [9.0] * 4, (0, 0)),
        ([1, 2, 3], [1, 9, 3], [0.0, 2e-5, 0.5, 0.0], (1, 1)),
        ([1, 2, 3], [1, 9, 3], [0.0, 2e-3, 0.0, 0.0], (1, 0)),
        ([1, 2], [1, 2, 3], [0.0, 0.0, 1e-6, 0.0], (1, 1)),
        ([1, 2, 3], [1, 2], [0.0, 0.0, 0.4], (1, 0)),
    ],
)
def test_only_ties_are_excused(a, b, regrets, expected):
    found = spec.gate([result(a)], [result(b)], [None], Teacher(regrets))
    assert (found.different, found.ties) == expected


def test_another_end_of_the_same_tokens_is_a_difference():
    found = spec.gate([result([1, 2])], [result([1, 2], "length")], [None], Teacher([0.0, 0.0, 0.3]))
    assert (found.different, found.ties) == (1, 0)


def test_ratios_are_within_a_repeat_and_speeds_medians():
    times = {8: {"none": [(4.0, 2.0, 100), (8.0, 3.0, 100)], "vision": [(2.0, 0.5, 100), (2.0, 1.0, 100)]}}
    plain, vision = spec.speed_rows(times)
    assert plain["ratio"] == {"median": 1.0, "least": 1.0, "greatest": 1.0}
    assert vision["ratio"] == {"median": 3.0, "least": 2.0, "greatest": 4.0}
    assert vision["decode_ratio"] == {"median": 3.5, "least": 3.0, "greatest": 4.0}
    assert (vision["tokens_per_s"], vision["decode_tokens_per_s"]) == (50, 150)


def test_lines_are_taken_from_everywhere():
    lines = [spec.Line(spec.SCANS, None, str(i)) for i in range(100)] + [spec.Line(spec.BORN, None, "b")]
    kept = spec.even(lines, 10)
    assert [line.guess for line in kept if line.kind == spec.SCANS] == [str(10 * i) for i in range(10)]
    assert sum(line.kind == spec.BORN for line in kept) == 1


def test_a_real_run_draws_its_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    picture = tmp_path / "drafts.png"
    arguments = ["--limit", "3", "--batch", "2", "--repeats", "1", "--threads", "1", "--draft", "lookup", "vision"]
    arguments += ["--draft-rows", "16"]  # else times decide whether so few lines are drafted at all
    pages = [str(EXAMPLES / "scan.png"), str(EXAMPLES / "report.pdf")]
    status = spec.main([*pages, *arguments, "--plot", str(picture)])
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status == 0, document
    assert document["different"] == 0
    by = {(row["draft"], row["lines"]): row for row in document["acceptance"]}
    assert by["vision", spec.SCANS]["accept_length"] > 3, "a clear print is read by the encoder alone"
    assert by["lookup", spec.SCANS]["drafted"] == 0
    assert by["lookup", spec.BORN]["accept_length"] > 3
    assert {row["draft"] for row in document["speeds"]} == {"none", "lookup", "vision"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_other_answers_print_no_speed(monkeypatch, capsys):
    read = spec.Side.read

    def cut(side, lines, batch):
        results = read(side, lines, batch)
        return results if side.draft == "none" else [replace(r, tokens=r.tokens[:-1]) for r in results]

    monkeypatch.setattr(spec.Side, "read", cut)
    status = spec.main([str(EXAMPLES / "scan.png"), "--limit", "2", "--batch", "2", "--draft", "vision"])
    out = capsys.readouterr().out
    assert status == 1
    assert "No speed is reported" in out
    assert "speeds" not in json.loads(out.splitlines()[-1])
