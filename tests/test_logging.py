"""The log beside what is shown."""

import json
import random
import re

import pymupdf
import pytest
from in_process import called

import ocria
from ocria import events
from ocria.cli import main
from ocria.errors import OutputError
from ocria.events import (
    BatchDone,
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    EngineTick,
    LinesFound,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TaskProgress,
    TextDelta,
    TokensAccepted,
)
from ocria.progress import Log, make_reporter

WORDS = "some words that are nobody's business"
SECRET = "hard-to-guess"
EVENTS = [
    BatchStarted(3, 12),
    DocumentStarted("a\x1b[31m\n.pdf", 2, 2, 3),
    PageStarted("a.pdf", 1),
    PageRouted("a.pdf", 1, "model", "no text layer"),
    LinesFound("a.pdf", 1, ((0.0, 1.0, 2.0, 3.0),)),
    RequestSubmitted(0, 40, "a.pdf", 1, 0),
    PrefillDone(0, 40, 0.25, "a.pdf", 1, 0),
    TokensAccepted(0, 5, 7, 4, "a.pdf", 1, 0),
    TextDelta("a.pdf", 1, 0, WORDS),
    EngineTick(812.4, 5000.0, 28, 3),
    Note("debug", "details"),
    Note("warning", "odd", "a.pdf", 1),
    PageDone("a.pdf", 1, "ok", "model", 1.5, 512, WORDS),
    DocumentDone("a.pdf", "ok", 2.0, object()),
    DocumentWritten("a.pdf", ("a.md", "a.json")),
    DocumentFailed("caf\udce9.pdf", "no PDF", "Fetch it again", 4),
    DocumentSkipped("d.pdf", "ok", "it is done"),
    BatchDone(1, 0, 1, 1, 0, 2, 0, 512, 2.5),
    TaskProgress("scaling", 1, 8),
]
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def made(path, **options):
    with pymupdf.open() as pdf:
        pdf.new_page().insert_text((72, 90), f"On this page are {WORDS}.")
        pdf.save(path, **options)
    return path


def logged(path, kind, **options):
    log = Log(path, kind)
    reporter = make_reporter("none", log=log, **options)
    with reporter:
        for event in EVENTS:
            reporter.show(event)
    reporter.say("a line for people")
    reporter.error("lost\nfor good", 4)
    log.close()
    return path.read_text(encoding="utf-8")


def test_these_are_all_events():
    assert {type(event).__name__ for event in EVENTS} == {kind.__name__ for kind in events.EVENTS}


@pytest.mark.parametrize("quiet", [True, False])
def test_text_has_a_line_for_everything(tmp_path, quiet, capsys):
    text = logged(tmp_path / "log", "text", quiet=quiet)
    lines = text.splitlines()
    assert len(lines) == len(EVENTS) - 1 + 2, "all but the text itself, what was said, and the error"
    for line in lines:
        assert re.match(rf"{TIME} (debug|info|warning|error) +\S", line), line
    for part in (
        "a\\x1b[31m\\x0a.pdf: 2 pages (document 2 of 3)", "a.pdf, page 1: model (no text layer)", "debug   details",
        "warning a.pdf, page 1: odd", "a.pdf, page 1: ok in 1.50 s, 512 tokens", "a.pdf: wrote a.md, a.json",
        "no PDF. Fetch it again (exit code 4)", "d.pdf: skipped: it is done", "batch: 3 documents, 12 pages",
        "error   lost\\x0afor good (exit code 4)", "info    a line for people", "engine: 0 tokens/s, batch 28",
        "caf\\xe9.pdf: no PDF",
    ):  # fmt: skip
        assert part in text, part
    assert WORDS not in text
    assert capsys.readouterr().out == ""


def test_json_has_an_object_for_everything(tmp_path):
    text = logged(tmp_path / "log", "json")
    objects = [json.loads(line) for line in text.splitlines()]
    assert all(re.fullmatch(TIME, item.pop("time")) for item in objects)
    expected = [
        {name: value for name, value in event.to_dict().items() if name != "markdown"}
        for event in EVENTS
        if not isinstance(event, TextDelta)
    ]
    assert objects[:-2] == json.loads(json.dumps(expected))
    assert objects[-2]["message"] == "a line for people"
    assert objects[-1] == {"type": "error", "message": "lost\nfor good", "exit_code": 4}
    assert WORDS not in text


def test_the_terminal_gets_what_it_gets_without(tmp_path, capsys):
    for kind in ("plain", "json", "none"):
        shown = []
        for log in (None, Log(tmp_path / "log")):
            with make_reporter(kind, log=log) as reporter:
                for event in EVENTS:
                    reporter.show(event)
            reporter.error("lost", 3)
            shown.append(capsys.readouterr())
            assert reporter.stopping() == make_reporter(kind).stopping()
        assert shown[0] == shown[1]


def test_lines_are_added(tmp_path):
    path = tmp_path / "log"
    path.write_text("from before\n")
    count = random.randrange(1, 5)
    for number in range(count):
        log = Log(path)
        log.say(f"run {number}")
        log.close()
        log.say("after the end")
    lines = path.read_text().splitlines()
    assert [line.split(" ", 2)[-1].strip() for line in lines] == ["before", *(f"run {n}" for n in range(count))]


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path):
    log = Log(tmp_path / "log")
    log.say("at once")
    assert "at once" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("name", ["", "none/log"])
def test_a_log_that_cannot_be_opened(tmp_path, name):
    with pytest.raises(OutputError, match="log cannot be opened") as caught:
        Log(tmp_path / name)
    assert caught.value.exit_code == 6
    result = called("parse", tmp_path / "a.pdf", "--log-file", tmp_path / name)
    assert (result.returncode, result.stdout) == (6, b"")
    assert result.stderr.count(b"\n") == 1


def test_a_log_that_can_no_longer_be_written(tmp_path):
    log = Log("/dev/full")
    with pytest.raises(OutputError, match="log cannot be written: No space left") as caught:
        log.say("a line")
    assert caught.value.path == "/dev/full"
    log.error("once is enough", 6)
    result = called("parse", made(tmp_path / "a.pdf"), "--mode", "text", "--log-file", "/dev/full")
    assert result.returncode == 6
    assert result.stderr == b"ocria: /dev/full: the log cannot be written: No space left on device\n"


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_run_is_logged_from_its_settings_to_its_exit_code(tmp_path, kind):
    path = made(tmp_path / "a.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=SECRET, owner_pw="o")
    log = tmp_path / "log"
    options = ("--mode", "text", "--log-file", log, "--log-format", kind)
    result = called("parse", path, "-q", "--password", SECRET, *options)
    assert (result.returncode, result.stderr) == (0, b"")
    assert WORDS in result.stdout.decode()
    failed = called("parse", path, OCRIA_PASSWORD=f"{SECRET}-not", OCRIA_LOG_FILE=str(log), OCRIA_LOG_FORMAT=kind)
    assert failed.returncode == 5
    text = log.read_text()
    assert SECRET not in text
    assert WORDS not in text
    if kind == "json":
        first, *_, last = [json.loads(line) for line in text.splitlines()]
        assert first["type"] == "begin"
        assert first["settings"]["password"] == "set"
        assert first["settings"]["quiet"] is True
        assert first["settings"]["inputs"] == [str(path)]
        assert first["version"] == ocria.__version__
        assert (last["type"], last["exit_code"]) == ("error", 5)
        assert any(json.loads(line)["type"] == "page_done" for line in text.splitlines())
        assert {"type": "end", "exit_code": 0} in [
            {k: v for k, v in json.loads(line).items() if k != "time"} for line in text.splitlines()
        ]
    else:
        assert f"begin: ocria parse, version {ocria.__version__}; inputs" in text.splitlines()[0]
        assert "password set" in text.splitlines()[0]
        assert ", page 1: text (" in text
        assert "end: exit code 0" in text
        assert "(exit code 5)" in text.splitlines()[-1]


def test_names_of_files_are_no_lines_of_the_log(tmp_path):
    log = tmp_path / "log"
    name = f"a\n2026-01-01T00:00:00.000Z error   forged\x1b]0;x\x07{random.randrange(1000)}.pdf"
    assert called("parse", tmp_path / name, "--log-file", log).returncode == 4
    text = log.read_text()
    assert "forged" in text
    assert not any(line.startswith("2026-01-01T00") for line in text.splitlines())
    assert "\x1b" not in text


def test_a_fault_of_ours_is_logged_too(tmp_path, monkeypatch, capsys):
    def broken(*arguments):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("ocria.cli._run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["parse", "a.pdf", "--log-file", str(tmp_path / "log")])
    text = (tmp_path / "log").read_text()
    assert "ZeroDivisionError: a fault" in text
    assert len(text.splitlines()) == 2
