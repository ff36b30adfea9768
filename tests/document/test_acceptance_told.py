"""What became of drafts reaches the page, the JSON, the events and the notes."""

import json
from pathlib import Path

import jsonschema
import pytest
from made import FakeReader, draw_lines, scan_pdf

import ocria
from ocria.document.reader import ReadText, _joined
from ocria.events import EngineTick, Note, PageDone, TokensAccepted
from ocria.progress import page_line
from ocria.runtime.acceptance import Acceptance

SCHEMA = json.loads((Path(ocria.__file__).parent / "document" / "write" / "schema.json").read_text())
LINES = ("The first line of the scan", "a second line of it", "and the last")


def counted(*steps):
    acceptance = Acceptance()
    for source, drafted, accepted in steps:
        acceptance.add(source, drafted, accepted)
    return acceptance


def read(text, acceptance, **options):
    return ReadText(text, 0.9, "ok", 8, len(text), acceptance=acceptance, **options)


@pytest.fixture(scope="module")
def scan():
    return scan_pdf(draw_lines(LINES))


@pytest.fixture
def answers():
    """Two lines that a text layer knew, in part, and one that nobody did."""
    return [
        read(LINES[0], counted(("lookup", 15, 15), ("lookup", 10, 4))),
        read(LINES[1], counted(("ngram", 3, 0), (None, 0, 0), ("lookup", 2, 2))),
        read(LINES[2], Acceptance()),
    ]


def test_a_page_has_the_sum_of_its_requests(scan, answers):
    document = ocria.parse(scan, reader=FakeReader(answers), mode="model")
    (page,) = document.pages
    assert page.acceptance == (answers[0].acceptance + answers[1].acceptance).as_dict()
    assert (page.acceptance["drafted"], page.acceptance["accepted"]) == (30, 21)
    assert page.acceptance["accept_length"] == (5 + 21) / 5
    assert answers[0].acceptance.steps == 2, "a sum leaves its terms alone"


def test_json_tells_it_after_the_schema(scan, answers):
    data = json.loads(ocria.parse(scan, reader=FakeReader(answers), mode="model").to_json())
    jsonschema.validate(data, SCHEMA)
    told = data["pages"][0]["acceptance"]
    assert told["accept_length"] == 26 / 5
    assert (told["verified_at"][:4], told["accepted_at"][:4]) == ([4, 4, 3, 2], [3, 3, 2, 2])
    assert {source: own["accepted"] for source, own in told["sources"].items()} == {"lookup": 21, "ngram": 0}
    for wrong in ({"drafted": -1}, {"sources": {"lookup": {}}}, {"sources": {}, "more": 1}):
        spoilt = json.loads(json.dumps(data))
        spoilt["pages"][0]["acceptance"].update(wrong)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoilt, SCHEMA)


def test_without_drafts_there_is_nothing_to_tell(scan):
    events = list(ocria.stream(scan, reader=FakeReader(LINES), mode="model"))
    data = json.loads(events[-1].document.to_json())
    jsonschema.validate(data, SCHEMA)
    assert data["pages"][0]["acceptance"] is None
    assert next(event for event in events if isinstance(event, PageDone)).accept_length is None


def test_the_page_that_is_done_tells_its_accept_length(scan, answers):
    events = ocria.stream(scan, reader=FakeReader(answers), mode="model")
    done = next(event for event in events if isinstance(event, PageDone))
    assert done.accept_length == 26 / 5
    assert page_line(done).endswith(" tokens, accept 5.2")


def test_an_alarm_is_told_once_for_an_answer_that_ended_well(scan, answers):
    answers[1] = read(LINES[1], counted(("lookup", 3, 3)), alarm_at=812)
    answers[2] = ReadText(LINES[2], 0.9, "degenerate", 8, 900, "degenerate", alarm_at=700)
    events = list(ocria.stream(scan, reader=FakeReader(answers), mode="model"))
    notes = [event for event in events if isinstance(event, Note) and "repeated itself" in event.message]
    assert [(note.level, note.page) for note in notes] == [("warning", 1)]
    assert "812 tokens" in notes[0].message
    assert events[-1].document.pages[0].status == "degenerate"


def test_the_pieces_of_a_line_are_counted_together(answers):
    whole = _joined([*answers, read("x", Acceptance(), alarm_at=3)])
    assert whole.acceptance == answers[0].acceptance + answers[1].acceptance
    assert whole.alarm_at == 3


def test_events_spell_it_out():
    acceptance = counted(("lookup", 3, 2), ("ngram", 1, 0))
    for event in (
        TokensAccepted(0, 4, 4, 2, acceptance=acceptance),
        EngineTick(1.0, 1.0, 1, 0, accept_length=2.0, acceptance=acceptance),
    ):
        data = json.loads(json.dumps(event.to_dict()))
        assert data["acceptance"] == acceptance.as_dict()
        assert data["acceptance"]["sources"]["lookup"]["accepted_at"] == [1, 1, 0]
    assert TokensAccepted(0, 1).to_dict()["acceptance"] is None
