"""The bench of quantised checkpoints: its sums and tables, and one real run with the shipped model."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import quant
from PIL import Image
from report import Reading

from ocria.errors import ConfigError
from ocria.quant.recipe import load_recipe

SCAN = Path(__file__).resolve().parents[2] / "examples" / "scan.png"


def row(name, cer, edits, speed=None, quantised=None):
    found = {"kl": 2e-4, "agreement": 0.999, "scores": {"all": {"cer": cer, "wer": 0.02, "f1": None},
             "lines": {"cer": cer, "f1": 0.9}}}  # fmt: skip
    made = {"recipe": name, "bytes": 1_234_567, "full": found, "accept_length": edits}
    if speed:
        made["speed"] = {"tokens_per_s": speed, "ratio": {"median": 1.5}}
    return made | ({"quantised": quantised} if quantised else {})


def test_variants_take_a_recipe_apart():
    found = quant.variants(["fp8", "nvfp4"])
    kinds = [f"nvfp4, {how}" for how in ("plain rounding", "scaling alone", "without GPTQ")]
    assert list(found) == ["bf16", "fp8", *kinds, "nvfp4"]
    plain, scaled, blocks, whole = list(found.values())[2:]
    assert (plain.scaling, plain.block_scales, plain.gptq) == ("none", "none", False)
    assert (scaled.scaling, scaled.block_scales, scaled.gptq) == ("awq", "none", False)
    assert blocks == replace(whole, gptq=False)
    assert whole == replace(load_recipe("nvfp4"), kv="bf16")
    assert whole.gptq
    assert all(recipe.rules == whole.rules for recipe in (plain, scaled, blocks))
    assert list(quant.variants(["fp8", "nvfp4"], whole=True)) == ["bf16", "fp8", "nvfp4"]
    with pytest.raises(ConfigError):
        quant.variants(["nvfp5"])


def test_scores_are_totals_where_the_truth_has_an_order():
    readings = [
        Reading("lines", "a", "abcd efgh", "abcd efgx", 1.0), Reading("books", "b", "a" * 91, "a" * 91, 1.0),
        Reading("born", "c", "one two", "two one", 1.0), Reading("born", "d", "one two", "one", 1.0),
    ]  # fmt: skip
    found = quant.scores(readings)
    assert found["lines"]["cer"] == pytest.approx(1 / 9)
    assert found["all"]["cer"] == pytest.approx(1 / 100)
    assert found["all"]["wer"] == pytest.approx(1 / 3)
    assert found["all"]["f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert quant.scores(readings[2:])["all"]["cer"] is None


def test_the_table_says_points_and_leaves_out_what_is_not_there():
    other = {"kl": 3e-4, "agreement": 0.5, "scores": {"all": {"cer": 0.03, "wer": 0.02, "f1": None}}}
    lines = quant.table([row("bf16", 0.01, None), row("fp8", 0.0125, 4.5, 321.0, other)])
    assert len(lines) == 2 + 3
    assert len({line.count("|") for line in lines}) == 1
    assert "| 1.250 | +0.250 |" in lines[3]
    assert "| 4.50 | 321 (1.50x) |" in lines[3]
    assert "| quantised |  | 3.000 | +2.000 |" in lines[4]
    assert "50.000" in lines[4]
    assert quant.group_lines([row("bf16", 0.01, None)])[-1] == "| bf16 | 1.000 |"


def test_speeds_are_those_of_a_token_within_a_repeat():
    times = {"bf16": [(4.0, 2.0, 100), (8.0, 4.0, 100)], "x": [(4.0, 1.0, 200), (4.0, 1.0, 50)]}
    found = quant.speeds(times)
    assert found["bf16"]["ratio"] == {"median": 1.0, "least": 1.0, "greatest": 1.0}
    assert found["x"]["ratio"] == {"median": 1.5, "least": 1.0, "greatest": 2.0}
    assert found["x"]["decode_tokens_per_s"] == 125


def test_items_are_from_everywhere():
    assert quant.evenly(list(range(100)), 4) == [0, 25, 50, 75]
    assert quant.evenly([1, 2], 9) == [1, 2]
    assert quant.evenly([1, 2], 0) == []


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Three lines of a scan as a folder of samples; the truth of one of them is something else."""
    from readers import grey_image

    from ocria.document.lines import find_lines

    folder = tmp_path_factory.mktemp("samples")
    rows = []
    for number, line in enumerate(find_lines(grey_image(SCAN)).lines[:3]):
        Image.fromarray(line.crop).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text("something else")
        rows.append({"path": f"{number}.png", "group": "lines_truth", "kind": "line", "truth": f"{number}.txt"})
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


ARGUMENTS = ["--held-out", "2", "--drafted", "2", "--timed", "2", "--repeats", "1", "--threads", "1", "--batch", "2"]


def test_a_real_run_draws_its_picture(samples, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    picture, kept = tmp_path / "quant.png", tmp_path / "kept.json"
    options = ["--samples", str(samples), "--recipe", "fp8", "--plot", str(picture), "--json", str(kept)]
    assert quant.main([*ARGUMENTS, *options]) == 0
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    plain, fp8 = document["rows"]
    assert (plain["recipe"], fp8["recipe"]) == ("bf16", "fp8")
    assert (plain["full"]["kl"], plain["full"]["agreement"]) == (0.0, 1.0)
    assert 0 < fp8["full"]["kl"] < fp8["quantised"]["kl"] < 0.1, "rounded inputs lose more"
    assert fp8["full"]["tokens"] == plain["full"]["tokens"] > 20
    assert 0.5 < fp8["bytes"] / plain["bytes"] < 0.55
    assert plain["full"]["scores"]["all"]["cer"] > 0.5, "the truth is something else"
    assert fp8["accept_length"] > 2
    assert document["wrong"] == {"bf16": 0, "fp8": 0}
    assert fp8["speed"]["tokens_per_s"] > 0
    assert "| fp8 | full |" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    texts = [row["full"]["texts"] for row in json.loads(kept.read_text())["rows"]]
    assert texts[0] == texts[1]
    assert all(len(text) > 10 for text in texts[0])


def test_wrong_answers_print_no_speed(samples, monkeypatch, capsys):
    monkeypatch.setattr(quant, "gate", lambda folder, requests, results: 1)
    monkeypatch.setattr(quant.Side, "accept_length", lambda side, requests: None)
    monkeypatch.setattr(quant, "variants", lambda names, whole: {"bf16": load_recipe("bf16")})
    assert quant.main([*ARGUMENTS, "--samples", str(samples)]) == 1
    out = capsys.readouterr().out
    assert "No speed is reported" in out
    assert "speed" not in json.loads(out.splitlines()[-1])["rows"][0]


def test_a_page_model_is_refused(samples):
    loaded = SimpleNamespace(profile=SimpleNamespace(unit="page", name="large"), tokenizer=None)
    with pytest.raises(quant.UsageError, match="reads pages"):
        quant.requests_of([], loaded)


def test_samples_that_are_not_there(tmp_path, capsys):
    assert quant.main(["--samples", str(tmp_path)]) == 3
    assert "manifest" in capsys.readouterr().err
