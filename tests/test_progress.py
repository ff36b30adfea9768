"""What each way of reporting makes of the same events."""

import fcntl
import json
import os
import pty
import random
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest
from rich.cells import cell_len

from ocria import events
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
from ocria.progress import KINDS, Reporter, make_reporter, tick_line
from ocria.progress.bar import Bar
from ocria.progress.estimate import Estimate, Left
from ocria.progress.lines import batch_line, duration, printable
from ocria.progress.plain import Plain

TICK = EngineTick(812.4, 5000.0, 28, 3, 790.6, 2.71, 1 << 20, 1 << 30, 1e12, 41.7, 1.25)
EVENTS = [
    BatchStarted(1, 2),
    DocumentStarted("a/b.pdf", 2),
    PageStarted("a/b.pdf", 1),
    PageRouted("a/b.pdf", 1, "model", "no text layer"),
    LinesFound("a/b.pdf", 1, ((0.0, 1.0, 2.0, 3.0),)),
    RequestSubmitted(0, 40, "a/b.pdf", 1, 0),
    PrefillDone(0, 40, 0.25, "a/b.pdf", 1, 0),
    TokensAccepted(0, 5, 7, 4, "a/b.pdf", 1, 0),
    TextDelta("a/b.pdf", 1, 0, "über\u2028\n"),
    TICK,
    Note("debug", "details"),
    Note("warning", "odd \x1b[31m name", "a/b.pdf", 1),
    Note("error", "lost", "a/b.pdf", 2),
    PageDone("a/b.pdf", 1, "ok", "model", 1.5, 512, "text"),
    DocumentDone("a/b.pdf", "ok", 2.0, object()),
    DocumentWritten("a/b.pdf", ("a/b.md",)),
    DocumentFailed("a/c.pdf", "no \x1b[2J PDF", "Fetch it again", 4),
    DocumentSkipped("a/d.pdf", "ok", "it is done"),
    BatchDone(1, 0, 1, 1, 0, 1, 0, 512, 2.5),
    TaskProgress("scaling", 1, 8),
]


def shown(capsys, kind, **options):
    with make_reporter(kind, **options) as reporter:
        for event in EVENTS:
            reporter.show(event)
    captured = capsys.readouterr()
    assert captured.out == "", "standard output carries data only"
    return captured.err


def test_the_events_here_are_all_there_are():
    assert {type(event).__name__ for event in EVENTS} == {kind.__name__ for kind in events.EVENTS}


def test_json_holds_every_event_in_order(capsys):
    lines = shown(capsys, "json").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == json.loads(json.dumps([event.to_dict() for event in EVENTS]))


def test_json_needs_no_locale(capsys):
    assert shown(capsys, "json").isascii()


def test_plain_has_a_line_for_each_page_and_the_engine(capsys):
    assert shown(capsys, "plain").splitlines() == [
        "ocria: a/b.pdf: 2 pages",
        "ocria: engine: 791 tokens/s, batch 28, 3 waiting, accept 2.7, 1.2 pages/s, bandwidth 42 %",
        "ocria: warning: page 1: odd \\x1b[31m name",
        "ocria: error: page 2: lost",
        "ocria: page 1: ok in 1.50 s, 512 tokens",
        "ocria: a/b.pdf: ok in 2.0 s",
        "ocria: error: a/c.pdf: no \\x1b[2J PDF. Fetch it again",
        "ocria: a/d.pdf: skipped: it is done",
        "ocria: scaling: 1 of 8",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["warning: page 1", "error: page 2", "error: a/c.pdf"]),
        ({"quiet": True}, ["error: page 2", "error: a/c.pdf"]),
        (
            {"verbose": True},
            [
                "page 1: model", "debug: details", "warning: page 1", "error: page 2", "page 1: ok",
                "a/b.pdf: wrote a/b.md", "error: a/c.pdf", "a/d.pdf: skipped",
            ],
        ),
    ],
)
def test_notes_alone(capsys, options, expected):
    lines = shown(capsys, "none", **options).splitlines()
    assert len(lines) == len(expected)
    assert all(line.startswith(f"ocria: {start}") for line, start in zip(lines, expected, strict=True))


def test_the_bar_shows_pages_and_the_engine(capsys):
    text = shown(capsys, "bar")
    assert "b.pdf" in text
    assert "1/2" in text
    assert "791 tokens/s, batch 28" in text
    assert "\x1b[31m" not in text.replace("\\x1b", "")


def test_a_task_that_parses_nothing(capsys):
    """The bar shows how far it is; plain lines come when it begins, when it is done, and now and then."""
    with make_reporter("plain") as reporter:
        for done in range(1, 9):
            reporter.show(TaskProgress("scaling", done, 8))
        reporter.show(TaskProgress("rounding", 0, 2))
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-2:]) == ("ocria: scaling: 1 of 8", ["ocria: scaling: 8 of 8", "ocria: rounding: 0 of 2"])
    bar = Bar()
    bar.show(TaskProgress("scaling", 3, 8))
    shown = "\n".join(str(line) for line in bar._lines(80, fancy=True))
    bar.close()
    assert "scaling" in shown
    assert "3/8" in shown


def test_unknown_figures_are_left_out():
    assert tick_line(EngineTick(1.0, 1.0, 2, 0)) == "0 tokens/s, batch 2"


@pytest.mark.parametrize(
    ("terminal", "quiet", "term", "expected"),
    [
        (True, False, "xterm", Bar),
        (True, True, "xterm", Reporter),
        (True, False, "dumb", Plain),
        (True, True, "dumb", Reporter),
        (False, False, "xterm", Reporter),
    ],
)
def test_auto_is_a_bar_on_terminals_alone(monkeypatch, terminal, quiet, term, expected):
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert type(make_reporter("auto", quiet=quiet)) is expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bar"])
def test_a_closed_standard_error_is_no_reason_to_write_elsewhere(capsys, monkeypatch, kind):
    monkeypatch.setattr(sys, "stderr", None)
    with make_reporter(kind) as reporter:
        for event in EVENTS:
            reporter.show(event)
        reporter.error("lost", 1)
    assert capsys.readouterr().out == ""


def test_errors_end_a_run_in_the_same_form(capsys):
    make_reporter("json").error("bad\nthing", 4)
    make_reporter("plain").error("bad\nthing", 4)
    first, second = capsys.readouterr().err.splitlines()
    assert json.loads(first) == {"type": "error", "message": "bad\nthing", "exit_code": 4}
    assert second == "ocria: bad\\x0athing"


def test_lines_of_a_batch_name_their_document(capsys):
    with make_reporter("none", verbose=True) as reporter:
        for event in (BatchStarted(2), *EVENTS[1:]):
            reporter.show(event)
    lines = capsys.readouterr().err.splitlines()
    assert "ocria: a/b.pdf, page 1: model (no text layer)" in lines
    assert "ocria: warning: a/b.pdf, page 1: odd \\x1b[31m name" in lines
    assert "ocria: a/b.pdf, page 1: ok in 1.50 s, 512 tokens" in lines


def test_what_is_said_is_an_object_too(capsys):
    make_reporter("json").say("3 documents: 3 ok")
    assert json.loads(capsys.readouterr().err) == {
        "type": "note", "level": "info", "message": "3 documents: 3 ok", "path": None, "page": None
    }  # fmt: skip


def test_plain_lines_tell_what_is_left_of_a_batch(capsys, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with make_reporter("plain") as reporter:
        reporter.show(BatchStarted(3))
        for position in (1, 2, 3):
            path = f"{position}.pdf"
            reporter.show(DocumentStarted(path, 2, position, 3))
            for page in (1, 2):
                reporter.show(PageDone(path, page, "ok", "text", 0.5, 0, ""))
            reporter.show(DocumentDone(path, "ok", 1.0))
    lines = [line for line in capsys.readouterr().err.splitlines() if "page 1" not in line and "page 2" not in line]
    assert lines[0] == "ocria: document 1 of 3: 1.pdf: 2 pages"
    assert re.fullmatch(r"ocria: 1.pdf: ok in 1.0 s; 2 documents left, about 0:\d\d", lines[1])
    assert re.fullmatch(r"ocria: 2.pdf: ok in 1.0 s; 1 document left, about 0:\d\d", lines[3])
    assert lines[5] == "ocria: 3.pdf: ok in 1.0 s"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def fed(clock, *steps):
    """An estimate that saw events, each so many seconds after the one before."""
    estimate = Estimate(clock)
    for seconds, event in steps:
        clock.now += seconds
        estimate.see(event)
    return estimate


def page(path, number):
    return PageDone(path, number, "ok", "text", 0.1, 0, "")


def test_the_end_of_one_document_follows_from_its_pages():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(50):
        pages, pace, clock = draw.randrange(4, 60), draw.uniform(0.05, 20.0), Clock()
        done = draw.randrange(2, pages)
        estimate = fed(clock, (0, DocumentStarted("a", pages)), *((pace, page("a", n)) for n in range(done)))
        assert estimate.pages_per_s() == pytest.approx(1 / pace)
        assert estimate.left() == estimate.left_of("a")
        assert estimate.left().seconds == pytest.approx((pages - done) * pace)
        assert not estimate.left().rough


def test_the_pace_is_that_of_recent_pages():
    """A model that took a minute to load is forgotten, and a page that hangs is not."""
    clock = Clock()
    estimate = fed(clock, (0, DocumentStarted("a", 1000)), (60, page("a", 0)), *((1, page("a", n)) for n in range(40)))
    assert estimate.pages_per_s() == pytest.approx(1.0, rel=0.05)
    clock.now += 100
    assert estimate.pages_per_s() < 0.25


def test_quick_pages_are_averaged_over_seconds():
    clock = Clock()
    estimate = fed(clock, (0, DocumentStarted("a", 9000)), *((0.01, page("a", n)) for n in range(2000)))
    clock.now += 0.5  # a pause that says little
    assert estimate.pages_per_s() == pytest.approx(100, rel=0.1)


def test_nothing_is_foretold_before_the_second_page():
    clock = Clock()
    estimate = fed(clock, (0, DocumentStarted("a", 3)), (5, page("a", 1)))
    assert (estimate.pages_per_s(), estimate.left()) == (None, None)


def test_pages_of_later_documents_are_guessed_from_earlier_ones_and_said_to_be():
    clock = Clock()
    steps = [(0, BatchStarted(4)), (0, DocumentStarted("a", 3, 1, 4)), *((1, page("a", n)) for n in (1, 2))]
    assert fed(clock, *steps).left() is None, "nothing is known about the other three"
    steps += [(1, page("a", 3)), (0, DocumentDone("a", "ok", 3)), (0, DocumentStarted("b", 5, 2, 4))]
    left = fed(Clock(), *steps).left()
    assert left == Left(pytest.approx(5 + 2 * 4), True)


def test_a_batch_whose_pages_are_known_is_no_guess():
    steps = [(0, BatchStarted(3, 30)), (0, DocumentStarted("a", 10, 1, 3)), *((2, page("a", n)) for n in range(4))]
    assert fed(Clock(), *steps).left() == Left(pytest.approx(2 * 26), False)


def test_documents_that_were_skipped_or_failed_count_as_ended_and_make_a_total_rough():
    steps = [
        (0, BatchStarted(5, 50)), (0, DocumentSkipped("s", "ok", "done")), (0, DocumentFailed("f", "gone", None, 4)),
        (0, DocumentStarted("a", 4, 3, 5)), *((1, page("a", n)) for n in range(4)), (0, DocumentDone("a", "ok", 4)),
    ]  # fmt: skip
    estimate = fed(Clock(), *steps)
    assert estimate.documents_left == 2
    assert estimate.left() == Left(pytest.approx(8.0), True)


def test_a_document_that_failed_after_it_was_read_ends_once():
    steps = [
        (0, BatchStarted(2)), (0, DocumentStarted("a", 1, 1, 2)), (1, page("a", 1)), (0, DocumentDone("a", "ok", 1)),
        (0, DocumentFailed("a", "the disk is full", None, 6)),
    ]  # fmt: skip
    assert fed(Clock(), *steps).documents_left == 1


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.2, "0:00"), (59.6, "1:00"), (754, "12:34"), (3600, "1:00:00"), (86399, "23:59:59"), (400000, "5 days")],
)
def test_durations(seconds, expected):
    assert duration(seconds) == expected


def test_batch_line():
    some, none = BatchDone(1, 0, 1, 1, 0, 1, 0, 512, 2.5), BatchDone(0, 0, 0, 0, 0, 0, 0, 0, 0.0)
    assert batch_line(some) == "1 ok, 1 failed, 1 skipped; 1 page, 512 tokens in 2.5 s"
    assert batch_line(none) == "no documents; 0 pages in 0.0 s"


def test_printable():
    assert printable("a\tb\x85c\u2028d\u202ee ünï\udce9") == "a\\x09b\\x85c\\u2028d\\u202ee ünï\\xe9"


# The bar on a terminal: a process of its own, whose standard error is one.

DRIVER = """
import sys, time
from ocria.events import *
from ocria.progress import make_reporter
from ocria.progress.lines import printable

tick = EngineTick(812.4, 5000.0, 28, 3, 790.6, 2.71, pages_per_s=1.25)
names = {names!r}
print("data")
with make_reporter("auto") as reporter:
    print(type(reporter).__name__, flush=True)
    if len(names) > 1:
        reporter.show(BatchStarted(len(names)))
    for position, name in enumerate(names, 1):
        reporter.show(DocumentStarted(name, 3, position, len(names)))
        for page in (1, 2, 3):
            time.sleep({pause})
            reporter.show(tick)
            reporter.show(Note("warning", "long note " + "x" * 150 + " end", name, page))
            reporter.show(PageDone(name, page, "ok", "text", 0.1, 0, ""))
        reporter.show(DocumentDone(name, "ok", 0.3))
        if position == 1 and {wait}:
            reporter.say("READY")
            input()
            reporter.say("AGAIN")
    time.sleep({pause})
print("end", flush=True)
"""


def on_terminal(names, *, columns=80, pause=0.15, then=None, **environment):
    """What the driver wrote to a terminal of so many columns, and to standard output. `then`: other columns, to which
    it is resized on the way."""
    side, other = pty.openpty()
    resize(side, columns)
    unset = ("CI", "NO_COLOR", "COLUMNS", "LINES")
    base = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(names=names, pause=pause, wait=then is not None)],
        stdin=other, stderr=other, stdout=subprocess.PIPE, start_new_session=True,
        env={**base, "TERM": "xterm", "PYTHONUTF8": "1", **environment},
    )  # fmt: skip
    os.close(other)
    said, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([side], [], [], 0.2)[0]:
            try:
                said += os.read(side, 65536)
            except OSError:  # the other side is closed
                break
        if then is not None and b"READY" in said:
            resize(side, then)
            then = None
            os.write(side, b"\n")
    output = process.communicate(timeout=120)[0]
    os.close(side)
    assert process.returncode == 0, said
    return said.decode(), output.decode()


def resize(side, columns):
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def plain_lines(said):
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", said)]


def bar_lines(said):
    """Lines of the bars, notes left out."""
    return [line for line in plain_lines(said) if " pages" in line or "documents" in line or "tokens/s" in line]


def test_bars_on_a_terminal():
    said, output = on_terminal(["a/one.pdf", "a/文档 [b]:smile:.pdf"])
    assert output == "data\nBar\nend\n"
    lines = bar_lines(said)
    assert any(line.startswith("all documents") and "1/2 documents" in line for line in lines)
    assert any(line.startswith("one.pdf") and "2/3 pages" in line for line in lines)
    assert any(line.startswith("文档 [b]:smile:.pdf") and "left" in line for line in lines)
    assert any("791 tokens/s, batch 28" in line for line in lines)
    notes = [line for line in plain_lines(said) if "warning" in line]
    assert len(notes) == 6
    assert all(line.startswith("ocria: warning: a/") for line in notes)
    assert "x" * 150 + " end" in "".join(plain_lines(said)), "notes are not cut into lines"
    # All of it is gone at the end, and the cursor is there.
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l")
    assert said.endswith("\x1b[2K")


@pytest.mark.parametrize("columns", [24, 61, 200])
def test_no_line_of_the_bars_is_wider_than_the_terminal(columns):
    said, _ = on_terminal(["x" * 50 + "-文档文档文档.pdf", "b.pdf"], columns=columns, pause=0.05)
    lines = bar_lines(said)
    assert lines
    assert max(map(cell_len, lines)) < columns


def test_a_terminal_that_is_resized():
    said, _ = on_terminal(["one.pdf", "two.pdf"], columns=100, then=45)
    before, _, after = said.partition("AGAIN")
    assert max(map(cell_len, bar_lines(before))) > 45
    assert any(line.startswith("two.pdf") for line in bar_lines(after))
    assert max(map(cell_len, bar_lines(after))) < 45


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"CI": "true"}, {"TERM": ""}])
def test_plain_lines_where_nothing_can_be_redrawn(environment):
    said, output = on_terminal(["one.pdf"], pause=0.01, **environment)
    assert output == "data\nPlain\nend\n"
    assert "\x1b" not in said
    assert "ocria: one.pdf: 3 pages\r\n" in said


def test_no_colour_where_none_is_wanted():
    assert re.search(r"\x1b\[[0-9;]*m", on_terminal(["one.pdf"])[0])
    said, _ = on_terminal(["one.pdf"], NO_COLOR="1")
    assert "1/3 pages" in said
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-9]|9[0-7])m", said)


def test_a_terminal_without_unicode():
    said, _ = on_terminal(["x" * 50 + ".pdf"], PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert said.isascii()
    assert "#" in said
