"""`ocria bench`: what it prints, writes and refuses."""

import importlib.util
import json
import time

import pytest
from benchmark_facts import group, report
from in_process import called
from PIL import Image, ImageDraw, ImageFont

import ocria.benchmark.stages as stages
from ocria.benchmark import plot


@pytest.fixture
def page(tmp_path):
    """A page with two lines, which is read in no time."""
    image = Image.new("L", (700, 260), 255)
    for row, text in enumerate(("Quarterly report of the harbour", "The keeper wrote a letter")):
        ImageDraw.Draw(image).text((40, 40 + 90 * row), text, font=ImageFont.load_default(36), fill=0)
    image.save(tmp_path / "page.png")
    return tmp_path / "page.png"


def run(*arguments, cwd=None):
    """Exit code, standard output, standard error."""
    result = called("bench", "--threads", "1", *arguments, cwd=cwd)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


@pytest.fixture
def brief(monkeypatch):
    """Each stage takes the least that it can, one request in one turn, whatever time there is. Nothing is compiled."""
    monkeypatch.setattr(stages, "_LIMITS_S", 0.02)
    monkeypatch.setattr(stages, "_COMPILE_S", 1e9)
    for share in ("PAGES_SHARE", "DRAFTS_SHARE", "BATCHES_SHARE", "THREADS_SHARE"):
        monkeypatch.setattr(stages, share, 1e-9)


def test_a_short_run_measures_and_advises(page, tmp_path, brief):
    saved = tmp_path / "run.json"
    code, out, err = run(page, "--seconds", "3600", "--save", saved, "--json", "--progress", "json")
    assert code == 0, err
    told = json.loads(out)
    assert json.loads(saved.read_text()) == told
    assert told["source"] == "files"
    assert told["model"]["name"] == "ocria-nano"
    assert told["model"]["unit"] == "line"
    assert 5e6 < told["model"]["parameters"] < 7e6
    assert told["page"]["requests"] == 2 * told["page"]["pages"]
    assert told["page"]["tokens"] > 10
    assert sum(told["page"]["parts"].values()) == pytest.approx(sum(told["page"]["seconds"]) / told["page"]["pages"])
    assert told["limits"]["flops_per_s"] > 1e8
    assert {one["name"] for one in told["recipes"]} >= {"fp8", "nvfp4"}
    assert "compiling" in {one["what"] for one in told["left_out"]}
    assert told["verdict"].startswith("This machine reads")
    drafts = [one for one in told["speeds"] if one["group"] == "draft"]
    assert [one["name"] for one in drafts] == ["none", "auto", "own"]
    assert [one["name"] for one in drafts if one["base"]] == ["auto"]
    for one in drafts:
        assert one["different"] == 0
        assert one["requests"] == 1
        assert one["tokens_per_s"] == pytest.approx(one["tokens"] / one["seconds"][0])
    assert drafts[0]["accept_length"] is None
    assert drafts[2]["accept_length"] >= 1
    events = [json.loads(line) for line in err.splitlines()]
    assert {event["type"] for event in events} == {"task_progress"}
    assert all(0 <= event["left_s"] <= 3600 for event in events)
    assert run(page, "--save", saved)[:2] == (6, ""), "a file that is there is not written over"


def test_an_interrupted_run_tells_what_was_measured(page, tmp_path, brief, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "_drafts", interrupted)
    code, out, err = run(page, "--seconds", "3600", "--save", tmp_path / "run.json")
    assert code == 130
    assert "interrupted" in err
    assert "pages/min" in out
    assert "interrupted after" in out
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["interrupted"]
    assert told["page"]["pages_per_min"] > 0
    assert told["speeds"] == []


def test_a_model_that_does_not_fit_is_told_what_would(page, brief):
    code, out, err = run(page, "--memory", "1M")
    assert code == 7
    assert "not enough memory" in err
    assert "does not fit into the memory" in out


def test_variants_with_other_answers_have_no_speed(page, tmp_path, brief, monkeypatch):
    monkeypatch.setattr(stages, "differing", lambda teacher, requests, expected, found, tie: int(found is not expected))
    earlier = report(group("draft", "auto", none=4.0, auto=2.0)).to_dict()
    (tmp_path / "earlier.json").write_text(json.dumps(earlier))
    code, out, err = run(page, "--seconds", "3600", "--draft", "none", "--compare", tmp_path / "earlier.json")
    assert code == 0, err
    assert "Beside the earlier run" in out
    assert "pages/min with draft none" in out
    assert "none *" in out, "the base is what the options say"
    for name in ("auto", "own"):
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert "no speed: 1 answers differ" in line


def test_a_time_that_is_over_at_once(page, monkeypatch):
    def slow(options):
        time.sleep(600)

    monkeypatch.setattr(stages, "WatchedReader", slow)
    code, out, err = run(page, "--seconds", "1", "--json")
    assert code == 8
    assert "nothing was measured in 1 s" in err
    told = json.loads(out)
    assert told["page"] is None
    assert "what was under way" in told["left_out"][-1]["what"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing.pdf"], 4, "nothing.pdf: no such file"),
        (["--seconds", "0"], 2, "--seconds must be at least"),
        (["--seconds", "nan"], 2, "--seconds must be at least"),
        (["--compare", "nothing.json"], 4, "nothing.json: cannot be read"),
        (["--save", "no/such/folder.json"], 6, "in none that exists"),
        (["--plot", "."], 6, "is a folder"),
        (["--model", "no-such-model"], 7, "no-such-model"),
        (["--draft", "no-such-drafter"], 2, "no-such-drafter"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(arguments, code, said, tmp_path):
    found, out, err = run(*arguments, cwd=tmp_path)
    assert (found, out) == (code, ""), err
    assert said in err


def test_a_picture_needs_matplotlib(page, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(plot.importlib.util, "find_spec", lambda name: None if name == "matplotlib" else real(name))
    code, out, err = run(page, "--plot", tmp_path / "a.png")
    assert (code, out) == (7, "")
    assert "pip install matplotlib" in err


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    plot.plot(report(group("draft", "auto", none=4.0, auto=2.0)), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert image.width > 300


