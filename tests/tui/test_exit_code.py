"""The exit code that a session ends with."""

import pytest
from ocria_tui.exit_code import exit_code
from ocria_tui.messages import DocumentCancelled, DocumentQueued, Refused, SessionEnded
from ocria_tui.state import AppState, apply

from ocria.events import DocumentDone, DocumentFailed, DocumentSkipped, DocumentStarted, PageDone


def done(path, status):
    return DocumentDone(path, status, 1.0)


LOCKED = DocumentFailed("c.pdf", "needs a password", None, 5)


@pytest.mark.parametrize(
    ("events", "fail_on", "code"),
    [
        ([], "partial", 0),
        ([done("a", "ok"), DocumentSkipped("b", "ok", "done before")], "partial", 0),
        ([done("a", "ok"), done("b", "partial")], "partial", 3),
        ([done("a", "ok"), done("b", "partial")], "failure", 0),
        ([done("a", "ok"), done("b", "failed")], "failure", 1),
        ([LOCKED], "partial", 5),
        ([LOCKED, done("a", "ok")], "partial", 1),
        ([LOCKED, done("a", "failed")], "never", 0),
        ([LOCKED, DocumentQueued("c.pdf"), done("c.pdf", "ok")], "partial", 0),
        ([done("a", "ok"), DocumentQueued("b")], "partial", 130),
        ([DocumentStarted("a", 2)], "never", 130),
        ([DocumentStarted("a", 2), done("a", "interrupted")], "partial", 130),
        ([DocumentStarted("a", 2), done("a", "interrupted"), DocumentCancelled("a")], "partial", 0),
        ([PageDone("a", 1, "timeout", "model", 1.0, 0, ""), done("a", "failed")], "partial", 8),
        ([Refused("no documents found", None, "x/*.pdf")], "partial", 4),
        ([done("a", "ok"), SessionEnded("the process was killed")], "partial", 7),
        ([done("a", "ok"), SessionEnded()], "partial", 0),
    ],
)
def test_it_is_that_of_parse(events, fail_on, code):
    state = AppState()
    for event in events:
        apply(state, 0.0, event)
    assert exit_code(state, fail_on) == code
