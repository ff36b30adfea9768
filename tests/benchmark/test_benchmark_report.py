"""The report as text and as JSON, and beside an earlier one."""

import json

import pytest
from benchmark_facts import PAGE, group, recipe, report, speed, unequal

from ocria.benchmark import compare
from ocria.benchmark.advice import advise
from ocria.benchmark.facts import COMPILE, DRAFT, LeftOut
from ocria.benchmark.report import as_text
from ocria.errors import InputError

KEYS = {
    "bench", "version", "ocria", "budget_s", "machine", "model", "source", "limits", "page", "speeds", "recipes",
    "left_out", "advice", "verdict", "seconds", "interrupted",
}  # fmt: skip
SPEED_KEYS = {
    "group", "name", "base", "seconds", "ratios", "tokens", "requests", "pages", "different", "first_token_s",
    "accept_length", "pages_per_min", "once_s", "cached", "tokens_per_s",
}  # fmt: skip


def full(**more):
    speeds = [*group(DRAFT, "auto", none=4.0, auto=2.0), unequal(DRAFT, "own", 3)]
    speeds += [speed(COMPILE, "off", 4.0, True), speed(COMPILE, "on", 2.0, times=2.0, once_s=21.5, cached=False)]
    found = report(speeds, [recipe("fp8", 9_000_000)], left_out=[LeftOut("batch 64", "no time")], **more)
    found.advice, found.verdict = advise(found)
    return found


def test_the_json_form_is_stable():
    told = json.loads(json.dumps(full().to_dict()))
    assert told.keys() == KEYS
    assert (told["bench"], told["version"]) == ("ocria bench", 1)
    assert all(one.keys() == SPEED_KEYS for one in told["speeds"])
    assert told["machine"].keys() >= {"name", "cpu", "cores", "threads", "instructions", "gpu"}
    assert told["page"]["pages_per_min"] == pytest.approx(30)
    assert told["speeds"][1]["tokens_per_s"] == pytest.approx(200)
    assert told["advice"][0].keys() == {"about", "says", "option"}


def test_a_report_without_measurements_is_told_too():
    empty = report(model=None, page=None)
    empty.machine = empty.limits = None
    told = json.loads(json.dumps(empty.to_dict()))
    assert told.keys() == KEYS
    assert "took 0 s of 120 s" in as_text(empty)


def test_variants_with_other_answers_have_no_speed():
    (line,) = [line for line in as_text(full()).splitlines() if line.strip().startswith("own")]
    assert line.split(maxsplit=1)[1] == "no speed: 3 answers differ"
    told = next(one for one in full().to_dict()["speeds"] if one["name"] == "own")
    assert told["tokens_per_s"] is told["pages_per_min"] is None


def test_everything_is_in_the_text():
    text = as_text(full())
    for said in ("A CPU", "AVX2", "10.0 GB/s", "100 GFLOP/s", "2.00 s a page (1.90–2.20)", "12 % of the bandwidth",
                 "21.5 s once, compiled anew", "batch 64: no time", "--compile for more than"):  # fmt: skip
        assert said in text
    assert max(map(len, as_text(report()).splitlines())) < 200
    assert "interrupted after" in as_text(full(interrupted=True))


def test_this_run_beside_an_earlier_one(tmp_path):
    earlier, now = full().to_dict(), full().to_dict()
    earlier["machine"]["name"], now["page"]["pages_per_min"] = "other-host", 60.0
    (tmp_path / "a.json").write_text(json.dumps(earlier))
    text = compare.as_text(compare.load_run(str(tmp_path / "a.json")), json.loads(json.dumps(now)))
    assert "other-host (A CPU)" in text
    assert "host (A CPU)" in text
    (line,) = [line for line in text.splitlines() if "as it is" in line]
    assert line.split()[-3:] == ["30.0", "60.0", "2.00x"]
    assert "draft own" not in text, "what has no speed is not compared"
    now["source"] = "files"
    assert "not the same" in compare.as_text(earlier, now)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"bench": "spec"}', '{"bench": "ocria bench", "version": 99}'])
def test_files_that_are_no_run(content, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        compare.load_run(str(tmp_path / "x.json"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        compare.load_run(str(tmp_path / "none.json"))


def test_seconds_outside_of_the_engine():
    assert PAGE.outside_s == pytest.approx(0.6)
    assert PAGE.pages_per_min == pytest.approx(30)
