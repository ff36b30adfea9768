"""Documents for tests of sessions, and a session that remembers what it told."""

import os
import time
from pathlib import Path

import pymupdf
from ocria_tui.messages import SessionEnded

from ocria.events import DocumentDone, DocumentFailed, PageDone, PageStarted, RequestSubmitted

PATIENCE_S = 120
"""For a machine that is busy with other things; a session that hangs fails its test then."""


def pdf(path, pages=1, words="word"):
    """A PDF of small pages with one short line each."""
    with pymupdf.open() as document:
        for number in range(1, pages + 1):
            document.new_page(width=150, height=80).insert_text((10, 40), f"{words} {number}", fontsize=12)
        document.save(path)
    return str(path)


MANY = 24
"""Pages of a document that nobody can have read by the time a test has seen the first of them and acted."""


class Watched:
    """A session, and all that it has told so far."""

    def __init__(self, session):
        self.session, self.events, self.ats = session, [], []

    def __getattr__(self, name):
        return getattr(self.session, name)

    def look(self):
        """What came since the last look."""
        new = self.session.drain()
        self.ats += [at for at, _ in new]
        self.events += [event for _, event in new]
        return [event for _, event in new]

    def until(self, is_it, since=None):
        """Wait for an event and return it; `since`: a `mark`, by default all that comes from now on."""
        since = len(self.events) if since is None else since
        end = time.monotonic() + PATIENCE_S
        while True:
            self.look()
            for event in self.events[since:]:
                if is_it(event):
                    return event
            ended = [event for event in self.events[since:] if isinstance(event, SessionEnded)]
            assert not ended, f"the session ended: {ended[0].message}"
            assert time.monotonic() < end, f"no such event among {self.events[since:]}"
            time.sleep(0.02)

    def mark(self):
        """Where the events stand now."""
        self.look()
        return len(self.events)

    def ended(self, path, since=None):
        """Wait until a document is done or has failed, and return that event."""
        return self.until(lambda e: isinstance(e, (DocumentDone, DocumentFailed)) and e.path == path, since)

    def page_done(self, path, since=None):
        return self.until(lambda e: isinstance(e, PageDone) and e.path == path, since)

    def of(self, kind, since=0, path=None):
        return [e for e in self.events[since:] if isinstance(e, kind) and (path is None or e.path == path)]

    def started(self, since=0, path=None):
        """Numbers of the pages that were begun."""
        return [event.page for event in self.of(PageStarted, since, path)]

    def asked(self, since=0):
        """How often the model was asked something."""
        return len(self.of(RequestSubmitted, since))


def descendants(pid):
    """The processes below one, as the system tells."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it ended while we looked
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def is_there(pid):
    """Whether a process runs, one that has ended and waits to be collected not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def wait_until_gone(pids):
    end = time.monotonic() + 60
    while left := [pid for pid in pids if is_there(pid)]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def below(folder):
    """Files in a folder and those below it."""
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
