"""Lines in place of the app."""

import io

import pytest
from fake_session import FakeSession, halfway, whole_page
from ocria_tui.messages import DocumentQueued, Exported, PausedChanged, Refused, SessionEnded
from ocria_tui.plain import HELP, must_be_plain, over, run_plain, standing
from ocria_tui.state import AppState, apply

from ocria.events import DocumentDone, DocumentFailed, LinesFound


class Stream(io.StringIO):
    def __init__(self, terminal=True):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(("environment", "stdin", "stdout", "plain"), [
    ({"TERM": "xterm"}, True, True, False),
    ({"TERM": "xterm", "CI": "false"}, True, True, False),
    ({"TERM": "xterm", "CI": ""}, True, True, False),
    ({"TERM": "xterm", "CI": "true"}, True, True, True),
    ({"TERM": "xterm", "CI": "1"}, True, True, True),
    ({"TERM": "dumb"}, True, True, True),
    ({"TERM": ""}, True, True, True),
    ({}, True, True, True),
    ({"TERM": "xterm"}, False, True, True),
    ({"TERM": "xterm"}, True, False, True),
])  # fmt: skip
def test_where_there_is_no_terminal_for_it(environment, stdin, stdout, plain):
    assert must_be_plain(environment, Stream(stdin), Stream(stdout)) is plain


def test_a_closed_stream_is_no_terminal():
    stream = Stream()
    stream.close()
    assert must_be_plain({"TERM": "xterm"}, stream, Stream())


def finished():
    session = FakeSession()
    halfway(session)
    for page in range(4, 13):
        whole_page(session, "report.pdf", page)
    session.say(DocumentDone("report.pdf", "partial", 9.0), DocumentFailed("next.pdf", "it is damaged", "Fetch it", 4))
    return session


def test_each_event_is_a_labelled_line_and_nothing_is_rewritten(capsys):
    session = finished()
    session.say(PausedChanged(True), PausedChanged(False), Exported("first.pdf", ("first.md",)), Refused("no", "do it"))
    code = run_plain(session)
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert "\x1b" not in said.err
    assert "\r" not in said.err
    assert all(line.startswith("ocria: ") for line in lines)
    for line in ("document report.pdf: waits, 12 pages", "document report.pdf: page 4 is begun", "paused", "goes on",
                 "document report.pdf: page 4 has 10 lines", "document first.pdf: wrote first.md", "error: no. do it",
                 "error: next.pdf: it is damaged. Fetch it", "report.pdf, page 3: failed in 1.50 s"):  # fmt: skip
        assert f"ocria: {line}" in lines, line
    assert code != 0, "a document failed"
    assert session.asked[0] == ("start",)
    assert session.asked[-1][0] == "close"


def test_commands_are_lines(capsys):
    session = FakeSession()
    halfway(session)
    assert run_plain(session, commands=io.StringIO("s\np\nx\nX\nwhat\n\nq\n")) is not None
    said = capsys.readouterr().err
    assert said.count(HELP) == 2
    assert "of 14 pages done" in said
    assert [name for name, *_ in session.asked] == ["start", "pause", "cancel", "cancel", "close"]
    assert ("cancel", "report.pdf") in session.asked


def test_it_ends_when_nothing_is_left_to_wait_for():
    state = AppState()
    assert not over(state)
    apply(state, 0, DocumentQueued("a"))
    assert not over(state)
    apply(state, 0, LinesFound("a", 1, ()))
    assert not over(state)
    apply(state, 0, DocumentDone("a", "ok", 1.0))
    assert over(state)
    state = AppState()
    apply(state, 0, Refused("there is no such file"))
    assert over(state)
    state = AppState()
    apply(state, 0, DocumentQueued("a"))
    apply(state, 0, SessionEnded("crashed"))
    assert over(state)


def test_how_it_stands_is_a_sentence():
    session, state = FakeSession(), AppState()
    halfway(session)
    for at, event in session.drain():
        apply(state, at, event)
    assert standing(state) == "1 of 3 documents done, 5 of 14 pages done, running for 0:10, about 0:30 left"
