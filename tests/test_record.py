"""Recordings: written while a run goes on, read back whole, in part or not at all."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import pymupdf
import pytest

import ocria
from ocria import events
from ocria.cli import main
from ocria.errors import InputError, OutputError
from ocria.events import DocumentDone, Event, PageDone
from ocria.record import Recording, read_recording


@dataclass(frozen=True, slots=True)
class BellRung(Event):
    times: int


HEADER = '{"type":"recording","version":1,"ocria":"0.1.0"}\n'


@pytest.fixture
def rng():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture
def pdf(tmp_path):
    return made(tmp_path / "a.pdf", 3)


def made(path, pages, printed=1):
    """A PDF whose last `printed` pages have a line; the others cost next to nothing."""
    with pymupdf.open() as document:
        for number in range(pages):
            page = document.new_page(width=300, height=200)
            if number >= pages - printed:
                page.insert_text((20, 60), f"Line {number} of a document, which is long enough to be read.", fontsize=9)
        document.save(path)
    return path


@pytest.fixture
def parse(monkeypatch):
    """`ocria parse` in this process; returns the exit code."""
    kept = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield lambda *arguments: main(["parse", "--mode", "text", "-j", "0", *map(str, arguments)])
    for number, handler in kept:
        signal.signal(number, handler)


def some_events(rng, count):
    return [
        rng.choice([
            events.TextDelta("a\udc80.pdf", rng.randrange(1, 99), 3, rng.choice(["\n", "שלום", '"{', ""])),
            events.LinesFound("b", 1, tuple((rng.random(), 0.0, 1.5, 2.0) for _ in range(rng.randrange(4)))),
            events.EngineTick(rng.random(), 1.0, 2, 3),
            events.Note("info", "x" * rng.randrange(9000)),
        ])
        for _ in range(count)
    ]  # fmt: skip


def test_what_is_added_is_read_back(tmp_path, rng):
    path = tmp_path / "run.jsonl"
    added = some_events(rng, 50)
    recording = Recording(path)
    for number, event in enumerate(added):
        recording.add(event)
        if number % 10 == 0:
            assert [event for _, event in read_recording(path)] == added[: number + 1], "each line is there at once"
    recording.close()
    recording.close()
    read = list(read_recording(path))
    assert [event for _, event in read] == added
    times = [at for at, _ in read]
    assert times == sorted(times)
    assert times[0] >= 0
    assert all(isinstance(at, float) for at in times)


def test_times_can_be_given(tmp_path):
    recording = Recording(tmp_path / "run")
    recording.add(events.Note("info", "x"), 12.34567)
    recording.close()
    assert list(read_recording(tmp_path / "run")) == [(12.3457, events.Note("info", "x"))]


def test_a_recording_may_end_at_any_byte(tmp_path, rng):
    path = tmp_path / "run.jsonl"
    recording = Recording(path)
    added = some_events(rng, 6)
    for event in added:
        recording.add(event)
    recording.close()
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    cuts = {header, len(whole) - 1, len(whole), *rng.sample(range(header, len(whole)), 40)}
    for cut in cuts:
        path.write_bytes(whole[:cut])
        read = [event for _, event in read_recording(path)]
        lines = whole[:cut].count(b"\n") - 1
        assert read[:lines] == added[:lines]
        # A line that lacks nothing but its end is whole.
        assert len(read) == lines + (whole[cut : cut + 1] == b"\n")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "{}\n", "[]\n", "%PDF-1.7\n\x00\xff", '{"type":"note","level":"info","message":"x"}\n', HEADER[:-9],
     '{"type":"recording","version":"1"}\n', '{"type":"recording"}\n', "[" * 100_000],
)  # fmt: skip
def test_other_files_are_no_recordings(tmp_path, text):
    path = tmp_path / "other"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="line 1: this is no recording") as error:
        next(read_recording(path))
    assert error.value.path == str(path)


def test_a_newer_form_is_told(tmp_path):
    path = tmp_path / "run"
    path.write_text('{"type":"recording","version":2,"ocria":"9.0"}\n')
    with pytest.raises(InputError, match="line 1: a newer version"):
        next(read_recording(path))
    path.write_text('{"type":"recording","version":1,"ocria":"0.9","colour":"red"}\n')
    assert list(read_recording(path)) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [("", "this is no event"), ("{", "this is no event"), ("[1]", "this is no event"), ("\x00", "this is no event"),
     ('{"type":"note","level":"info","message":"x"}', "None is no time"),
     ('{"at":-1,"type":"note","level":"info","message":"x"}', "-1 is no time"),
     ('{"at":true,"type":"note","level":"info","message":"x"}', "True is no time"),
     ('{"at":NaN,"type":"note","level":"info","message":"x"}', "nan is no time"),
     ('{"at":Infinity,"type":"note","level":"info","message":"x"}', "inf is no time"),
     ('{"at":1}', "unknown kind of event None"), ('{"at":1,"type":"bell_rung"}', "unknown kind of event 'bell_rung'"),
     ('{"at":1,"type":"note","level":"info"}', "message is missing"),
     ('{"at":1,"type":"page_started","path":"a","page":"1"}', "page cannot be of type str"),
     ("[" * 100_000, "this is no event")],
)  # fmt: skip
def test_broken_lines_are_named(tmp_path, line, why):
    path = tmp_path / "run"
    good = '{"at":0.5,"type":"page_started","path":"a","page":1}\n'
    path.write_text(HEADER + good + good + line + "\n" + good)
    reading = read_recording(path)
    assert [next(reading)[0], next(reading)[1].page] == [0.5, 1]
    with pytest.raises(InputError) as error:
        next(reading)
    assert error.value.message == f"line 4: {error.value.message[8:]}"
    assert why in error.value.message
    assert error.value.path == str(path)


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot be read"):
            next(read_recording(path))


def test_kinds_of_other_modules(tmp_path):
    recording = Recording(tmp_path / "run")
    recording.add(BellRung(3))
    recording.close()
    assert [event for _, event in read_recording(tmp_path / "run", also=iter([BellRung]))] == [BellRung(3)]
    with pytest.raises(InputError, match="line 2: unknown kind of event 'bell_rung'"):
        list(read_recording(tmp_path / "run"))


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path):
    path = tmp_path / "run"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        Recording(path)
    assert path.read_text() == "mine"
    Recording(path, overwrite=True).close()
    assert list(read_recording(path)) == []
    for place in (tmp_path / "none" / "run", tmp_path):
        with pytest.raises(OutputError):
            Recording(place, overwrite=True)


def test_a_full_disk_is_an_error():
    with pytest.raises(OutputError, match="cannot be written: No space left"):
        Recording("/dev/full")
    Recording(os.devnull).close()


def test_a_pipe_takes_a_recording(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read = []
    thread = threading.Thread(target=lambda: read.extend(read_recording(path)))
    thread.start()
    recording = Recording(path)
    recording.add(events.Note("info", "x"))
    recording.close()
    thread.join(60)
    assert [event for _, event in read] == [events.Note("info", "x")]


@pytest.mark.parametrize("progress", ["none", "json", "plain"])
def test_the_command_records_what_python_sees(pdf, tmp_path, parse, progress, capsys):
    record = tmp_path / "run.jsonl"
    assert parse(pdf, "--record", record, "--progress", progress) == 0
    plain = capsys.readouterr().out
    assert parse(pdf) == 0
    assert plain == capsys.readouterr().out, "the output does not depend on it"
    recorded = [event for _, event in read_recording(record)]
    seen = []
    ocria.parse(pdf, mode="text", jobs=0, on_event=seen.append)
    assert [type(event) for event in recorded] == [type(event) for event in seen]
    assert [e.markdown for e in recorded if isinstance(e, PageDone)] == [
        e.markdown for e in seen if isinstance(e, PageDone)
    ]
    assert recorded[-1].status == "ok"


def test_a_folder_is_recorded_too(tmp_path, parse, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.pdf", "b.pdf"):
        made(folder / name, 2)
    record = tmp_path / "run.jsonl"
    assert parse(folder, "--output-dir", tmp_path / "out", "--record", record, "-q") == 0
    recorded = [event for _, event in read_recording(record)]
    assert isinstance(recorded[0], events.BatchStarted)
    assert isinstance(recorded[-1], events.BatchDone)
    assert sum(isinstance(event, DocumentDone) for event in recorded) == 2
    assert capsys.readouterr().err == ""


def test_the_command_replaces_nothing_unasked(pdf, tmp_path, parse, capsys):
    record = tmp_path / "run"
    record.write_text("mine")
    assert parse(pdf, "--record", record) == 6
    assert "exists already" in capsys.readouterr().err
    assert record.read_text() == "mine"
    assert parse(pdf, "--record", record, "--overwrite") == 0
    assert len(list(read_recording(record))) > 5
    before = pdf.read_bytes()
    (tmp_path / "link").symlink_to(pdf)
    for place in (pdf, tmp_path / "link"):
        assert parse(pdf, "--record", place, "--overwrite") == 2
    for option in ("-o", "--log-file"):
        assert parse(pdf, "--record", tmp_path / "x", option, tmp_path / "x") == 2
    assert pdf.read_bytes() == before


def test_a_dry_run_records_nothing(pdf, tmp_path, parse):
    assert parse(pdf, "--dry-run", "--record", tmp_path / "run") == 0
    assert not (tmp_path / "run").exists()


def test_ctrl_c_leaves_a_recording_that_can_be_read(tmp_path):
    """The second one stops at once, wherever the run is."""
    document, record = made(tmp_path / "long.pdf", 400, printed=400), tmp_path / "run.jsonl"
    run = subprocess.Popen(
        [sys.executable, "-m", "ocria", "parse", document, "--mode", "text", "-j", "0", "--record", record,
         "--progress", "json"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in run.stderr:
        if json.loads(line)["type"] == "page_done":
            break
    for _ in range(2):
        run.send_signal(signal.SIGINT)
        if next((line for line in run.stderr if "Ctrl-C" in line), None) is None:
            break
    run.stderr.read()
    assert run.wait(120) == 130
    read = list(read_recording(record))
    assert any(isinstance(event, PageDone) for _, event in read)
    assert all(0 <= at < math.inf for at, _ in read)
