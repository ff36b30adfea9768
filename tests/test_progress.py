"""What each way of reporting makes of the same events."""

import json
import sys

import pytest

from ocria.events import (
    BatchDone,
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    EngineTick,
    Event,
    LinesFound,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)
from ocria.progress import KINDS, Reporter, make_reporter, tick_line
from ocria.progress.bar import Bar
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
]


def shown(capsys, kind, **options):
    with make_reporter(kind, **options) as reporter:
        for event in EVENTS:
            reporter.show(event)
    captured = capsys.readouterr()
    assert captured.out == "", "standard output carries data only"
    return captured.err


def test_the_events_here_are_all_there_are():
    assert {type(event).__name__ for event in EVENTS} == {kind.__name__ for kind in Event.__subclasses__()}


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
