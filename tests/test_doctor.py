"""`ocria doctor`, `ocria models` and `ocria cache`."""

import json
import os
import random
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from ocria.cli import main
from ocria.doctor import engine, machine
from ocria.doctor.check import FAIL, OK, WARN, Check, as_text
from ocria.doctor.engine import engine_checks
from ocria.doctor.machine import machine_checks
from ocria.doctor.models import as_table, models
from ocria.doctor.sizes import folder_bytes, told
from ocria.document.options import ParseOptions
from ocria.document.reader import NANO
from ocria.model.hub_cache import fetched_models, hub_cache
from ocria.runtime.compiled import cache_folder

CPU = ParseOptions(device="cpu", batch=3)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Caches and configuration of nobody, and nothing set."""
    for name in [name for name in os.environ if name.startswith(("OCRIA_", "HF_", "HUGGINGFACE_", "TORCHINDUCTOR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def no_pages(monkeypatch):
    """Without the one check that starts a process."""
    monkeypatch.setattr(machine, "_workers", lambda: Check("page workers", OK, "not looked at"))


def by_name(checks):
    return {check.name: check for check in checks}


def fetched(name, revision="a" * 40, main=True, folder=NANO):
    """A model in the cache of the hub, as `hf download` leaves it: links to blobs."""
    root = hub_cache() / f"models--{name.replace('/', '--')}"
    snapshot = root / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir(exist_ok=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        blob = root / "blobs" / f"{revision[0]}-{file}"
        shutil.copy(folder / file, blob)
        (snapshot / file).symlink_to(os.path.relpath(blob, snapshot))
    if main:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / "main").write_text(revision)
    return snapshot


def test_a_sound_machine(capsys, place):
    (place / "config" / "ocria").mkdir(parents=True)
    (place / "config" / "ocria" / "config.toml").write_text("batch = 3\n")
    assert main(["doctor", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert not any(line.startswith("FAIL") for line in lines)
    for name in ("packages", "temporary files", "page workers", "CPU", "device", "kernels", "model", "memory"):
        assert any(line.startswith(f"ok    {name} ") for line in lines), name
    assert f"{place}/config/ocria/config.toml" in captured.out
    assert "3 requests at a time" in captured.out


def test_as_json(capsys, no_pages):
    assert main(["doctor", "--device", "cpu", "--batch", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    checks = {check["name"]: check for check in told["checks"]}
    assert told["exit_code"] == 0
    assert {check["status"] for check in checks.values()} <= {OK, WARN}
    memory = checks["memory"]["facts"]
    assert memory["requests"] == 2
    parts = memory["bytes"]
    assert parts.pop("limit") >= parts["together"] == sum(parts.values()) - parts["together"]
    assert checks["device"]["facts"]["device"] == "cpu"
    assert checks["kernels"]["facts"]["form"] == "torch"
    assert checks["model"]["facts"]["drafts"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--memory", "1M"], "memory"), (["--model", "/no/such/folder"], "model"), (["--device", "cuda:77"], "device"),
        (["--draft", "nonsense"], "model"),
    ],
)  # fmt: skip
def test_an_engine_that_cannot_run_gives_7(arguments, name, capsys, no_pages):
    assert main(["doctor", "--device", "cpu", *arguments]) == 7
    captured = capsys.readouterr()
    (line,) = [line for line in captured.out.splitlines() if line.startswith("FAIL")]
    assert line.split()[1] == name
    assert captured.err.startswith(f"ocria: {name}: ")
    assert "-> " in captured.out, "a fault has a cure"
    assert main(["doctor", "--device", "cpu", *arguments, "--json"]) == 7
    assert json.loads(capsys.readouterr().out)["exit_code"] == 7


def test_a_faulty_option_is_a_fault_of_usage(capsys):
    assert main(["doctor", "--memory", "lots"]) == 2
    assert capsys.readouterr().out == ""


def test_pages_that_cannot_be_drawn_give_1(capsys, monkeypatch):
    monkeypatch.setattr("ocria.document.api.stream", broken_stream)
    assert main(["doctor", "--device", "cpu"]) == 1
    assert "page workers" in capsys.readouterr().err


def broken_stream(*arguments, **options):
    from ocria.errors import InputError

    raise InputError("the process that opens files cannot be started")


def test_a_missing_package(monkeypatch, no_pages):
    version = machine._version
    missing = random.choice(machine._NEEDED)
    monkeypatch.setattr(machine, "_version", lambda name: None if name in (missing, "textual") else version(name))
    checks = by_name(machine_checks([], []))
    assert (checks["packages"].status, checks["packages"].engine) == (FAIL, True)
    assert missing in checks["packages"].found
    assert checks["textual"].status == WARN
    assert "ocria[tui]" in checks["textual"].cure


def test_torch_that_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (check,) = engine_checks(CPU)
    assert (check.name, check.status, check.engine) == ("torch", FAIL, True)


def test_no_room_for_temporary_files(monkeypatch, no_pages):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", full)
    check = by_name(machine_checks([], []))["temporary files"]
    assert (check.status, check.engine) == (FAIL, False)
    assert "No space left" in check.found


def test_variables_that_nothing_reads(monkeypatch, no_pages, capsys):
    monkeypatch.setenv("OCRIA_BATHC", "3")
    monkeypatch.setenv("OCRIA_THREADS", "1")
    assert main(["doctor", "--device", "cpu"]) == 0
    (line, cure) = [line for line in capsys.readouterr().out.splitlines() if "BATHC" in line or "OCRIA_BATCH" in line]
    assert line.startswith("warn  environment")
    assert "OCRIA_THREADS" not in line
    assert "Did you mean OCRIA_BATCH?" in cure


@pytest.mark.parametrize(
    ("device", "compile", "status"), [("cpu", False, WARN), ("cpu", True, FAIL), ("cuda", False, FAIL)]
)
def test_a_machine_without_a_compiler(device, compile, status, monkeypatch):
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)
    check = engine._compiler(torch.device(device), compile)
    assert (check.status, check.engine) == (status, status == FAIL)
    assert "C compiler" in check.found if device == "cuda" else "C++ compiler" in check.found


def test_a_gpu_without_triton(monkeypatch):
    def missing(name):
        raise engine.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(engine.importlib.metadata, "version", missing)
    assert engine._kernels(torch.device("cuda")).status == FAIL
    assert engine._kernels(torch.device("cpu")).status == OK


def test_kernels_on_a_gpu_do_not_run_in_the_interpreter(monkeypatch):
    monkeypatch.setattr("ocria.ops.register.INTERPRETED", True)
    assert "TRITON_INTERPRET" in engine._kernels(torch.device("cuda")).found


def test_compiled_code_that_cannot_be_kept(monkeypatch):
    monkeypatch.setattr(engine.os, "access", lambda path, mode: False)
    assert engine._compiled().status == WARN


def test_text_of_checks():
    text = as_text([Check("a", OK, "fine", details=("more",)), Check("longer", FAIL, "bad", "Mend it.")])
    assert text.splitlines() == [
        "ok    a       fine", "              more", "FAIL  longer  bad", "              -> Mend it."
    ]  # fmt: skip


def test_models_here_and_elsewhere(capsys):
    snapshot = fetched("someone/LightOnOCR-3-1B")
    fetched("someone/other", folder=NANO)
    assert main(["models", "--json", "--device", "cpu"]) == 0
    found = {model["name"]: model for model in json.loads(capsys.readouterr().out)["models"]}
    nano, light, plain = found["ocria-nano"], found["someone/LightOnOCR-3-1B"], found["someone/other"]
    assert (nano["reads"], nano["folder"], nano["missing"]) == ("line", str(NANO), [])
    assert {"vision", "drafter"} <= set(nano["drafts"])
    assert (light["profile"], light["folder"], light["revision"]) == ("LightOnOCR-3", str(snapshot), "a" * 40)
    assert light["disk_bytes"] == sum(path.stat().st_size for path in snapshot.iterdir())
    assert light["parameters"] == nano["parameters"] > 1e6
    assert plain["missing"] == ["--prompt"]
    assert "LightOnOCR-3" not in found, "it is there under its own name"
    assert found["OCRia-1"]["folder"] is None


def test_sizes_in_memory_follow_the_dtype():
    (full, *_), (half, *_) = models("float32", "cpu"), models("bfloat16", "cpu")
    assert half.device_bytes < full.device_bytes < 2.1 * half.device_bytes
    assert full.device_bytes == pytest.approx(4 * full.parameters, rel=0.1)
    assert (full.dtype, half.dtype) == ("float32", "bfloat16")


def test_a_model_of_another_kind_is_no_model_of_ours_and_a_broken_one_says_why(capsys):
    other = fetched("someone/bert")
    (other / "config.json").unlink()
    (other / "config.json").write_text('{"model_type": "bert"}')
    cut = fetched("someone/ovisocr2")
    blob = (cut / "model.safetensors").resolve()
    blob.write_bytes(blob.read_bytes()[: random.randrange(20, 2000)])
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    assert "bert" not in text
    assert "someone/ovisocr2 cannot be used: " in text
    assert "safetensors" in text


def test_the_table_of_models():
    lines = as_table(models("float32", "cpu")).splitlines()
    assert lines[0].split()[:3] == ["model", "reads", "writes"]
    assert lines[1].split()[:3] == ["ocria-nano", "line", "text"]
    assert any(line.startswith("chandra-ocr-2") and "not here" in line for line in lines)


def test_where_the_hub_keeps_models(monkeypatch, place):
    hub = pytest.importorskip("huggingface_hub.constants")
    assert hub.HF_HUB_CACHE
    assert hub_cache() == place / "cache" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", str(place / "hf"))
    assert hub_cache() == place / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(place / "models"))
    assert hub_cache() == place / "models"


def test_the_revision_that_main_names_is_taken(place):
    first = fetched("a/b", "1" * 40)
    second = fetched("a/b", "2" * 40, main=False)
    assert [found.folder for found in fetched_models()] == [first]
    shutil.rmtree(first.parents[1] / "refs")
    os.utime(first, (1, 1))
    assert [found.folder for found in fetched_models()] == [second]
    shutil.rmtree(hub_cache())
    assert fetched_models() == []


def test_caches_are_shown_and_only_ours_is_cleared(capsys, place, monkeypatch):
    elsewhere = place / "theirs"
    for folder in (place / "cache" / "ocria" / "compiled" / "abc", elsewhere):
        folder.mkdir(parents=True)
        (folder / "code").write_bytes(b"0" * 5000)
    (place / "cache" / "ocria" / "compiled" / "abc" / "same").hardlink_to(
        place / "cache" / "ocria" / "compiled" / "abc" / "code"
    )
    model = fetched("a/b")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(elsewhere))
    assert main(["cache", "show", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["caches"]
    assert [row["bytes"] for row in rows[:2]] == [5000, 5000]
    assert rows[2]["bytes"] == folder_bytes(hub_cache()) > 1e6
    assert [row["cleared"] for row in rows] == [True, False, False]
    assert main(["cache", "show"]) == 0
    assert "5 KiB" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().err == "ocria: 5 KiB freed\n"
    assert not (place / "cache" / "ocria" / "compiled").exists()
    assert (elsewhere / "code").exists()
    assert (model / "config.json").exists()
    assert main(["cache", "clear"]) == 0


def test_compiled_code_is_kept_where_the_cache_is_shown(place):
    network = SimpleNamespace(device=torch.device("cpu"), dtype=torch.float32, config="any")
    assert cache_folder(network).parent == place / "cache" / "ocria" / "compiled"


def test_sizes():
    assert [told(n) for n in (0, 1, 1024, 1 << 20, 3 << 30)] == ["0 KiB", "1 KiB", "1 KiB", "1.0 MiB", "3.0 GiB"]
