"""`ocria quantize`: what it prints, what it writes, what it refuses."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from safetensors import safe_open

from ocria.cli import main
from ocria.document.api import parse
from ocria.document.reader import NANO
from ocria.quant.recipe import Format, Recipe, load_recipe, recipe_names

TEXT = "Quarterly report of the harbour"


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Without the configuration and the terminal of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def page(tmp_path) -> Path:
    image = Image.new("L", (820, 140), 255)
    ImageDraw.Draw(image).text((40, 40), TEXT, font=ImageFont.load_default(40), fill=0)
    image.save(tmp_path / "page.png")
    return tmp_path / "page.png"


def run(*arguments, capsys):
    """Exit code, standard output, standard error."""
    code = main(["quantize", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(*arguments, capsys) -> str:
    code, out, err = run(*arguments, capsys=capsys)
    assert code in (2, 6, 7), err
    assert out == ""
    return err


def test_the_list_names_every_recipe_in_a_line(capsys):
    code, out, err = run("--list", capsys=capsys)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == recipe_names()
    assert all(load_recipe(line.split()[0]).description in line for line in lines)
    assert max(map(len, lines)) <= 100
    code, out, _ = run("--list", "--json", capsys=capsys)
    told = json.loads(out)["recipes"]
    assert [recipe["name"] for recipe in told] == recipe_names()
    assert [recipe["needs_pages"] for recipe in told] == [load_recipe(name).needs_pages for name in recipe_names()]


def test_a_dry_run_tells_sizes_that_come_true(tmp_path, capsys):
    options = ["nano", "--recipe", "nvfp4", "--scaling", "none", "--no-gptq", "--kv", "bf16", "--json"]
    code, out, err = run(*options, "--dry-run", capsys=capsys)
    assert (code, err) == (0, "")
    groups = json.loads(out)["groups"]
    assert list(tmp_path.iterdir()) == []
    code, out, _ = run(*options, "-o", tmp_path / "out", capsys=capsys)
    assert code == 0
    report = json.loads(out)
    assert sum(group["bytes_before"] for group in groups) == report["bytes_before"]
    assert sum(group["bytes_after"] for group in groups) == report["bytes_after"]
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        stored = sum(file.get_tensor(name).nbytes for name in file.keys())  # noqa: SIM118
    assert report["bytes_after"] == stored
    assert json.loads((tmp_path / "out" / "quantization_report.json").read_text()) == report
    code, out, _ = run("nano", "--recipe", "fp8", "--dry-run", capsys=capsys)
    assert code == 0
    for word in ("*.mlp.down_proj", "fp8-channel", "*.visual.*", "as it is", "whole model", "MB"):
        assert word in out


def test_quantised_with_pages_and_read(tmp_path, page, capsys):
    """The whole way: pages, scaling, a checkpoint that `ocria parse` takes."""
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'scaling = "awq"\nkv = "fp8"\n[[rules]]\nmodules = "*.layers.0.mlp.*"\nformat = "nvfp4"\n'
        '[[rules]]\nmodules = "*.self_attn.*"\nformat = "fp8-tensor"\n'
    )
    code, out, err = run(
        "nano", "--recipe", recipe, "--calib", page, "--form", "modelopt", "--drafter", "none", "-o", tmp_path / "out",
        "--progress", "json", capsys=capsys,
    )  # fmt: skip
    assert code == 0
    assert "*.mlp.up_proj" in out
    assert "fp8-tensor" in out
    events = [json.loads(line) for line in err.splitlines()]
    stages = {event["task"] for event in events if event["type"] == "task_progress"}
    assert {"reading pages", "calibrating", "scaling", "measuring the cache", "quantising"} == stages
    for event in events:
        assert 0 <= event["done"] <= event["total"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert config["quant_method"] == "modelopt"
    assert (tmp_path / "out" / "hf_quant_config.json").is_file()
    read = parse(page, model=str(tmp_path / "out"), mode="model", jobs=0, draft="none")
    assert (read.status, read.text.strip()) == ("ok", TEXT)


def test_a_drafter_that_is_given(tmp_path, capsys):
    code, out, _ = run("nano", "--recipe", "fp8", "--drafter", NANO / "drafter-dflash", "-o", "out", capsys=capsys)
    assert code == 0
    assert "drafter/*.mlp.up_proj" in out
    config = json.loads((tmp_path / "out" / "drafter" / "config.json").read_text())
    assert config["architectures"] == ["DFlashDraftModel"]
    assert "quantization_config" in config


def test_the_embedded_model_needs_no_pages_of_the_user(tmp_path, capsys):
    """Made ones do, and are announced; --kv alone needs them here, which is quick."""
    options = ["--recipe", "fp8", "--kv", "fp8", "--limit", "2", "--drafter", "none"]
    code, out, err = run("nano", *options, "-o", tmp_path / "out", capsys=capsys)
    assert code == 0
    assert "made ones" in err
    assert "2 samples" in out
    assert "scales of keys and values: 2 layers" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nano", "-o", "out"], 2, "--recipe is missing"),
        (["nano", "--recipe", "fp8"], 2, "--output is missing"),
        (["nano", "--recipe", "fp9", "-o", "out"], 7, "Did you mean 'fp8'?"),
        (["nowhere", "--recipe", "fp8", "-o", "out"], 7, "no model 'nowhere'"),
        (["nano", "--recipe", "fp8", "--limit", "0", "-o", "out"], 2, "--limit must be at least 1"),
        (["nano", "--recipe", "fp8", "--drafter", "nowhere", "-o", "out"], 2, "no folder of a drafter"),
        (["FOLDER", "--recipe", "nvfp4", "-o", "out"], 2, "--calib"),
        (["FOLDER", "--search", "--report", "found"], 2, "a search needs pages"),
        (["nano", "--search"], 2, "--search needs --report"),
        (["nano", "--search", "--report", "found", "--dry-run"], 2, "cannot be told beforehand"),
        (["nano", "--search", "--report", "found", "--max-pixels", "9999"], 2, "sizes of images"),
        (["nano", "--search", "--report", "found", "--bound", "kl=much"], 2, "no bound"),
        (["nano", "--recipe", "fp8", "-o", "taken"], 6, "is there already"),
    ],
)
def test_what_it_refuses(arguments, code, said, tmp_path, capsys):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    arguments = [str(NANO) if word == "FOLDER" else word for word in arguments]
    found, out, err = run(*arguments, capsys=capsys)
    assert (found, out) == (code, "")
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


def test_a_search_needs_more_than_one_line(tmp_path, capsys):
    image = Image.new("L", (500, 90), 255)
    ImageDraw.Draw(image).text((20, 20), "One line", font=ImageFont.load_default(40), fill=0)
    image.save(tmp_path / "line.png")
    code, out, err = run("nano", "--search", "--report", "found", "--calib", "line.png", capsys=capsys)
    assert (code, out) == (2, "")
    assert "--held-out" in err


def test_without_a_model_usage_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["quantize", "--recipe", "fp8"])
    assert caught.value.code == 2
    assert "MODEL" in capsys.readouterr().err


def test_an_interrupt_leaves_nothing(tmp_path):
    """Ctrl-C or the signal to end in the middle of the work, as soon as there is something to leave behind."""
    number = random.choice([signal.SIGINT, signal.SIGTERM])
    print(number)
    place = tmp_path / "place"
    arguments = ["nano", "--recipe", "nvfp4", "--limit", "8", "-o", place / "out"]
    command = [sys.executable, "-m", "ocria", "quantize", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"CI": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs of a shell ignore Ctrl-C
    )  # fmt: skip
    end = time.monotonic() + 500
    while not (place.is_dir() and list(place.iterdir())) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(number)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 130, err
    assert out == b""
    assert b"interrupted" in err
    assert list(place.iterdir()) == []


def test_a_search_gets_what_was_said_and_its_recipe_is_used(tmp_path, page, capsys, monkeypatch):
    """The search itself has its own tests; here it finds a recipe at once."""
    from ocria.quant import search

    asked = {}

    class Found:
        recipe = Recipe("found", rules=(("*.mlp.*", Format("nvfp4")),))

        def markdown(self) -> str:
            return "# Found\n"

    def find(model, held_out, out, **options):
        asked.update(options, model=model, held_out=held_out, out=out)
        return Found()

    monkeypatch.setattr(search, "run_search", find)
    options = ["--calib", page, page, "--report", "report", "--bound", "kl=0.5", "--scaling", "none", "--recipe", "fp8"]
    code, out, _ = run("nano", "--search", *options, "--drafter", "none", "-o", "out", capsys=capsys)
    assert (code, out) == (0, "# Found\n")
    assert (asked["model"], asked["out"]) == ("nano", Path("report"))
    assert (str(asked["bound"]), asked["settings"].scaling) == (str(search.Bound("kl", 0.5)), "none")
    # Half of what was read each: the two pages have a line.
    assert [len(asked[name]) for name in ("held_out", "calibration")] == [1, 1]
    assert [sample.result.text for sample in asked["held_out"]] == [TEXT]
    report = json.loads((tmp_path / "out" / "quantization_report.json").read_text())
    assert {module["format"] for module in report["modules"]} == {"nvfp4"}
    run("nano", "--search", "--held-out", page, *options, capsys=capsys)
    assert [len(asked[name]) for name in ("held_out", "calibration")] == [1, 2]
