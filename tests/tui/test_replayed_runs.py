"""A recorded run, watched again: the same events in the same order, by the same clock."""

import json
import math
import os
import time
from pathlib import Path

import pytest
from ocria_tui.messages import MESSAGES, PageImage, PausedChanged, Refused, SessionEnded
from ocria_tui.replay import ReplaySession
from ocria_tui.session import Session
from ocria_tui.sessions import make_session
from sessions_made import PATIENCE_S, pdf

from ocria.errors import InputError, UsageError
from ocria.events import DocumentDone, DocumentStarted, Note, PageDone, PageStarted, TextDelta
from ocria.record import Recording, read_recording

RUN = Path(__file__).with_name("run.jsonl")


def recording(path, events):
    writer = Recording(path)
    for at, event in events:
        writer.add(event, at)
    writer.close()
    return path


def played(file, speed=math.inf):
    session = make_session([], {}, replay=file, speed=speed)
    session.start()
    try:
        return session.drain()
    finally:
        session.close()


def test_what_was_recorded_is_played_in_its_order():
    recorded = [event for _, event in read_recording(RUN, MESSAGES)]
    told = [event for _, event in played(RUN)]
    kinds = (PageStarted, PageDone, DocumentStarted, DocumentDone, SessionEnded)
    assert [e for e in told if isinstance(e, kinds)] == [e for e in recorded if isinstance(e, kinds)]
    assert sum(isinstance(e, DocumentDone) for e in told) == 2
    for page in (e for e in told if isinstance(e, PageDone)):
        texts = {}
        for event in recorded:
            if isinstance(event, TextDelta) and (event.path, event.page) == (page.path, page.page):
                texts[event.unit] = texts.get(event.unit, "") + event.text
        joined = {
            e.unit: e.text for e in told if isinstance(e, TextDelta) and (e.path, e.page) == (page.path, page.page)
        }
        assert joined == texts
        assert len(texts) > 5, "the example has more lines on every page"


def test_the_recording_holds_no_path_of_the_machine_it_was_made_on():
    for line in RUN.read_text().splitlines():
        record = json.loads(line)
        for path in [record.get("path"), *record.get("outputs", ())]:
            assert path is None or not os.path.isabs(path)
    assert RUN.stat().st_size < 200_000


def test_it_keeps_time_and_a_pause_stops_the_clock(tmp_path):
    events = [(0.0, Note("info", "first")), (400.0, Note("info", "second")), (1e9, Note("info", "never"))]
    session = ReplaySession(recording(tmp_path / "r.jsonl", events), speed=1000)
    assert session.drain() == [], "nothing happens before it is started"
    session.start()
    told = session.drain()
    assert told[0] == (0.0, events[0][1])
    session.pause()
    told += session.drain()
    assert told[-1][1] == PausedChanged(True)
    stood = session.now
    time.sleep(0.6)  # 600 recorded seconds
    assert session.now == stood
    assert session.drain() == []
    session.resume()
    end = time.monotonic() + PATIENCE_S
    while events[1][1] not in [event for _, event in told]:
        told += session.drain()
        assert time.monotonic() < end
        time.sleep(0.01)
    assert session.now >= 400
    session.close()


def test_it_can_be_played_again(tmp_path):
    file = recording(tmp_path / "r.jsonl", [(0.0, Note("info", "a")), (5.0, Note("info", "b"))])
    session = ReplaySession(file, math.inf)
    session.start()
    first = session.drain()
    assert session.drain() == []
    session.restart()
    assert session.drain() == first
    assert len(first) == 2
    session.close()


def test_a_recording_that_was_cut_off_is_played_to_there(tmp_path):
    whole = RUN.read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(whole[: len(whole) // 2])
    told = [event for _, event in played(cut)]
    assert any(isinstance(event, TextDelta) for event in told)
    assert not any(isinstance(event, SessionEnded) for event in told)


def test_a_broken_line_ends_it_with_the_line(tmp_path):
    lines = RUN.read_text().splitlines()
    lines[20] = '{"at": 3, "type": "of tomorrow"}'
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join(lines) + "\n")
    ended = played(broken)[-1][1]
    assert isinstance(ended, SessionEnded)
    assert "line 21" in ended.message


@pytest.mark.parametrize("content", [b"", b"text\n", b'{"type": "recording", "version": 99}\n'])
def test_what_is_no_recording_is_told_at_once(tmp_path, content):
    file = tmp_path / "r.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError):
        make_session([], {}, replay=file)
    with pytest.raises(InputError):
        make_session([], {}, replay=tmp_path / "gone.jsonl")


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_that_goes_nowhere(speed):
    with pytest.raises(UsageError):
        ReplaySession(RUN, speed)


def test_files_and_a_recording_exclude_each_other(tmp_path):
    with pytest.raises(UsageError):
        make_session(["a.pdf"], {}, replay=RUN)
    with pytest.raises(UsageError):
        make_session([], {}, replay=RUN, record=tmp_path / "r.jsonl")


def test_all_else_is_refused(tmp_path):
    session: Session = ReplaySession(recording(tmp_path / "r.jsonl", [(0.0, Note("info", "a"))]), math.inf)
    session.start()
    session.drain()
    for command in (
        lambda: session.open(["a.pdf"]),
        lambda: session.set_options({"dpi": 100}),
        lambda: session.cancel(),
        lambda: session.cancel("a.pdf", 1),
        lambda: session.retry("a.pdf"),
        lambda: session.export("a.pdf", ["md"], "x"),
    ):
        command()
        ((_, event),) = session.drain()
        assert isinstance(event, Refused)
    assert session.live is False
    session.close()
    session.close()


def test_pages_are_drawn_from_the_files_that_are_still_there(tmp_path):
    path = pdf(tmp_path / "a.pdf")
    gone = str(tmp_path / "gone.pdf")
    session = ReplaySession(recording(tmp_path / "r.jsonl", [(0.0, Note("info", "a"))]), math.inf)
    session.start()
    session.drain()
    session.draw(gone, 1, 100)
    ((_, event),) = session.drain()
    assert isinstance(event, Note)
    session.draw(path, 1, 100)
    end = time.monotonic() + PATIENCE_S
    while not (told := session.drain()):
        assert time.monotonic() < end
        time.sleep(0.05)
    ((_, image),) = told
    assert isinstance(image, PageImage)
    assert Path(image.file).is_file()
    session.close()
    assert not Path(image.file).exists()
