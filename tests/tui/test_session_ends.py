"""How sessions end: closed, by a crash of the engine's process, with the app. Pages are kept, processes are not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ocria_tui.live import LiveSession
from ocria_tui.messages import DocumentQueued, Exported, PageImage, PausedChanged, Refused, SessionEnded
from sessions_made import MANY, PATIENCE_S, Watched, descendants, pdf, wait_until_gone

from ocria.errors import OutputError
from ocria.events import DocumentDone, DocumentFailed, DocumentStarted, PageDone
from ocria.record import read_recording

NOISE = """
import os, threading, time
def shout():
    while True:
        os.write(2, b"noise \\xff\\x00 {\\"type\\": \\"page_done\\"}\\n" * 50)
        print("more noise on standard output", flush=True)
        time.sleep(0.01)
if b"ocria_tui.child" in open("/proc/self/cmdline", "rb").read():
    os.write(1, b"printed before anything else, without an end")
    threading.Thread(target=shout, daemon=True).start()
"""


def session_of(folder, files=(), **options):
    session = LiveSession(list(files), {"mode": "model", "output_dir": folder / "out", "threads": 1, **options})
    session.start()
    return Watched(session)


def ended(session, since=0):
    end = time.monotonic() + PATIENCE_S
    while not (told := session.of(SessionEnded, since)):
        assert time.monotonic() < end
        session.look()
        time.sleep(0.02)
    return told[-1]


def test_a_crash_keeps_finished_pages_and_a_restart_goes_on(tmp_path):
    long, short = pdf(tmp_path / "long.pdf", MANY), pdf(tmp_path / "short.pdf")
    session = session_of(tmp_path, [long, short])
    session.page_done(long, 0)
    os.kill(session.pid, signal.SIGKILL)
    told = ended(session)
    assert "SIGKILL" in told.message
    assert told.cure
    kept = {page.page for page in session.of(PageDone)}
    assert 0 < len(kept) < MANY
    since = session.mark()
    session.pause()
    session.export(long, ["md"], str(tmp_path / "x.md"))
    session.look()
    assert [type(event) for event in session.events[since:]] == [Refused, Refused]

    since = session.mark()
    session.restart()
    assert session.ended(short, since).status == "ok"
    assert [done.status for done in session.of(DocumentDone, since, long)] == ["ok"]
    read = set(session.started(since, long))
    assert {page.page for page in session.of(PageDone, since, long)} == set(range(1, MANY + 1))
    assert not kept & read, "what was told as done is not read again"
    session.restart()  # does nothing while it runs
    session.close()
    assert (tmp_path / "out" / "long.pdf.md").is_file()


def test_a_document_that_takes_the_engine_along_twice_is_given_up(tmp_path):
    bad, good = pdf(tmp_path / "bad.pdf", 2 * MANY), pdf(tmp_path / "good.pdf")
    session = session_of(tmp_path, [bad, good], mode="text")
    for _ in range(2):
        since = session.mark()
        session.until(lambda e: isinstance(e, DocumentStarted) and e.path == bad, since if since else 0)
        os.kill(session.pid, signal.SIGKILL)
        ended(session, since)
        since = session.mark()
        session.restart()
    failed = session.until(lambda e: isinstance(e, DocumentFailed), since)
    assert failed.path == bad
    assert session.ended(good, since).status == "ok"
    session.close()


def test_closing_keeps_finished_pages_and_leaves_no_process_and_no_file(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = pdf(tmp_path / "a.pdf", MANY)
    session = session_of(tmp_path)
    session.draw(path, 1, 50)
    session.until(lambda e: isinstance(e, PageImage), 0)
    session.open([path])
    session.page_done(path, 0)
    pids = [session.pid, *descendants(session.pid)]
    assert len(pids) >= 3, "the engine, and those that draw"
    session.close()
    wait_until_gone(pids)
    session.look()
    assert session.events[-1] == SessionEnded()
    assert session.of(DocumentDone)[-1].status == "interrupted"
    assert list(temporary.iterdir()) == []
    session.close()
    session.pause()
    assert isinstance(session.look()[-1], Refused)
    kept = {page.page for page in session.of(PageDone)}

    again = session_of(tmp_path, [path])
    assert again.ended(path, 0).status == "ok"
    assert set(again.started()) == set(range(1, MANY + 1)) - kept
    again.close()


def test_closing_while_the_model_is_loaded_is_quick_to_end_and_so_is_one_that_is_stuck(tmp_path):
    session = session_of(tmp_path, [pdf(tmp_path / "a.pdf")])
    session.until(lambda e: isinstance(e, DocumentQueued), 0)
    pids = [session.pid, *descendants(session.pid)]
    os.kill(session.pid, signal.SIGSTOP)  # it can do nothing, and not even end
    session.close(timeout=0.5)
    wait_until_gone(pids)


def test_the_engine_ends_with_the_app(tmp_path):
    path = pdf(tmp_path / "a.pdf", MANY)
    app = f"""
import sys; sys.path[:] = {sys.path!r}
import os, time
from ocria_tui.live import LiveSession
from ocria.events import PageDone
session = LiveSession([{path!r}], {{"mode": "model", "output_dir": {str(tmp_path / "out")!r}, "threads": 1}})
session.start()
while not any(isinstance(event, PageDone) for _, event in session.drain()):
    time.sleep(0.05)
print(session.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", app], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        pids = [pid, *descendants(pid)]
        process.kill()
    wait_until_gone(pids)


def test_noise_of_libraries_does_not_reach_the_app(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = pdf(tmp_path / "a.pdf", 2)
    session = session_of(tmp_path, [path], mode="text")
    assert session.ended(path, 0).status == "ok"
    assert len(session.of(PageDone)) == 2
    os.kill(session.pid, signal.SIGKILL)
    assert "noise" in ended(session).message
    session.close()


def test_what_happened_is_recorded_as_it_was_told(tmp_path):
    file = tmp_path / "run.jsonl"
    path = pdf(tmp_path / "a.pdf", 2)
    options = {"mode": "text", "output_dir": tmp_path / "out"}
    session = Watched(LiveSession([path], options, file))
    session.start()
    session.ended(path, 0)
    session.draw(path, 1, 40)
    session.until(lambda e: isinstance(e, PageImage), 0)
    session.export(path, ["md"], str(tmp_path / "b.md"))
    session.until(lambda e: isinstance(e, Exported), 0)
    session.pause()
    session.until(lambda e: isinstance(e, PausedChanged), 0)
    session.close()
    session.look()
    messages = (DocumentQueued, Exported, PausedChanged, SessionEnded)
    recorded = [event for _, event in read_recording(file, messages)]
    told = [event for event in session.events if not isinstance(event, PageImage)]
    assert [json.dumps(e.to_dict()) for e in recorded] == [json.dumps(e.to_dict()) for e in told]
    assert session.ats == sorted(session.ats)
    with pytest.raises(OutputError):
        LiveSession([], options, file)
    assert Path(file).stat().st_size > 0
