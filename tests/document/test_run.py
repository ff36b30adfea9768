"""Whole runs with a reader that has no model: routes, batches, failures, cancelling, events, JSON."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jsonschema
import numpy as np
import pymupdf
import pytest
from made import FakeReader, draw_lines, scan_pdf
from PIL import Image

import ocria
import ocria.events
from ocria.document.options import ParseOptions
from ocria.document.reader import ReadText
from ocria.document.source import STDIN_NAME
from ocria.errors import EncryptedError, InputError, ModelNotFoundError, UsageError
from ocria.events import EngineTick, PageDone, PrefillDone, RequestSubmitted, TokensAccepted

LINES = ["The first line of the page is here", "and the second line follows it", "with a third one to end it"]
SCHEMA = json.loads((Path(ocria.__file__).parent / "document" / "write" / "schema.json").read_text())


@pytest.fixture
def scan():
    return scan_pdf(draw_lines(LINES))


def mixed_pdf(born_digital, scan):
    """Born-digital pages 1 and 2, a scan as page 3, and an empty page 4."""
    pdf = pymupdf.open(stream=born_digital)
    pdf.insert_pdf(pymupdf.open(stream=scan))
    pdf.new_page()
    return pdf.tobytes()


def test_each_page_takes_its_route(born_digital, scan):
    reader = FakeReader(LINES)
    document = ocria.parse(mixed_pdf(born_digital, scan), reader=reader)
    assert [page.route for page in document.pages] == ["text", "text", "model", "blank"]
    assert [page.status for page in document.pages] == ["ok", "ok", "ok", "blank"]
    assert document.status == "ok"
    assert "the captain's name" in document.markdown
    assert " ".join(document.pages[2].text.split()) == " ".join(LINES)
    assert document.pages[2].confidence == pytest.approx(0.9)
    assert document.model.name == "fake"
    assert len(reader.seen) == 1
    assert len(reader.seen[0]) == 3


def test_line_boxes_lie_on_the_displayed_page(scan):
    events = list(ocria.stream(scan, reader=FakeReader(LINES)))
    found = next(event for event in events if isinstance(event, ocria.events.LinesFound))
    # Drawn at y = 120, 180, 240 px of 150 dpi, 30 px high.
    for row, (x0, y0, x1, y1) in enumerate(found.boxes):
        assert x0 == pytest.approx(120 * 72 / 150, abs=3)
        assert (120 + 60 * row) * 72 / 150 <= y0 < y1 <= (165 + 60 * row) * 72 / 150
        assert x1 > x0 + 100


def test_mode_model_reads_born_digital_pages_from_pixels(born_digital):
    document = ocria.parse(born_digital, mode="model", pages=[1], reader=FakeReader(["read from pixels"]))
    assert document.pages[0].route == "model"
    assert "read from pixels" in document.markdown
    assert "captain" not in document.markdown


def test_mode_text_names_the_pages_it_cannot_read(born_digital, scan):
    document = ocria.parse(mixed_pdf(born_digital, scan), mode="text")
    assert [page.status for page in document.pages] == ["ok", "ok", "failed", "blank"]
    assert "no text layer" in document.pages[2].error
    assert document.status == "partial"
    assert document.model is None


def test_a_page_model_gets_whole_pages(scan):
    reader = FakeReader(["# Title\n\nText with a <table></table>"], unit="page", dialect="text")
    document = ocria.parse(scan, reader=reader)
    assert document.markdown == "# Title\n\nText with a <table></table>\n"
    assert [block.type for block in document.blocks] == ["page"]
    assert reader.seen[0][0].shape[2] == 3
    width, height = document.pages[0].width, document.pages[0].height
    assert document.blocks[0].box == (0.0, 0.0, width, height)


def test_pages_keep_their_physical_numbers(born_digital, scan):
    document = ocria.parse(mixed_pdf(born_digital, scan), pages="3-4,1", reader=FakeReader(LINES))
    assert [page.index for page in document.pages] == [1, 3, 4]
    assert document.page_count == 4


@pytest.mark.parametrize(("status", "expected"), [("truncated", "truncated"), ("degenerate", "degenerate")])
def test_a_bad_line_shows_in_the_status_of_its_page(scan, status, expected):
    bad = ReadText("lost lost lost", 0.4, status, 8, 20, "loop")
    document = ocria.parse(scan, reader=FakeReader([LINES[0], bad, LINES[2]]))
    assert document.pages[0].status == expected
    assert document.status == "partial"
    assert "1 of 3 lines" in document.pages[0].error
    assert "first line" in document.markdown


def test_a_page_that_raises_keeps_its_place_and_the_others_survive(born_digital, monkeypatch):
    from ocria.document import layout

    def fail(pdf, index):
        if index == 0:
            raise ValueError("broken on purpose")
        return lay_out(pdf, index)

    lay_out = layout.lay_out
    monkeypatch.setattr(layout, "lay_out", fail)
    events = []
    document = ocria.parse(born_digital, mode="text", on_event=events.append)
    assert [page.status for page in document.pages] == ["failed", "ok"]
    assert "broken on purpose" in document.pages[0].error
    assert document.status == "partial"
    notes = [event for event in events if isinstance(event, ocria.events.Note) and event.page == 1]
    assert "broken on purpose" in notes[0].message
    events.clear()
    document = ocria.parse(born_digital, reader=FakeReader(LINES), on_event=events.append)
    assert [page.status for page in document.pages] == ["ok", "ok"]
    assert [page.route for page in document.pages] == ["model", "text"], "what has no text has pixels"
    routes = [(event.route, event.reason) for event in events if isinstance(event, ocria.events.PageRouted)]
    assert [route for route, _ in routes] == ["text", "model", "text"]
    assert "broken on purpose" in routes[1][1]


def test_a_damaged_content_stream_is_a_failed_page_and_not_a_blank_one(born_digital):
    pdf = pymupdf.open(stream=born_digital)
    pdf.update_stream(pdf[0].get_contents()[0], b"BT ( never closed << ]] garbage \xff\xfe q Q q")
    document = ocria.parse(pdf.tobytes())
    assert [page.status for page in document.pages] == ["failed", "ok"]


def test_events_tell_the_whole_story(born_digital, scan):
    events = [event.to_dict() for event in ocria.stream(mixed_pdf(born_digital, scan), reader=FakeReader(LINES))]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "document_started"
    assert kinds[-1] == "document_done"
    for page in (1, 2, 3, 4):
        mine = [event["type"] for event in events if event.get("page") == page]
        assert mine[0] == "page_started"
        assert mine[-1] == "page_done"
    delta = "".join(e["text"] for e in events if e["type"] == "text_delta" and e["unit"] == 1)
    assert delta == LINES[1]
    json.dumps(events)


def test_what_the_engine_tells_comes_through_the_same_bus(born_digital, scan):
    """With the place on the page that it concerns; ticks with the pages a second of this document."""
    seen = []
    ocria.parse(mixed_pdf(born_digital, scan), reader=FakeReader(LINES), on_event=seen.append)
    told = [event for event in seen if isinstance(event, (RequestSubmitted, PrefillDone, TokensAccepted))]
    assert [(event.path, event.page) for event in told] == [("<bytes>", 3)] * 9
    assert [event.unit for event in told] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {(event.drafted, event.accepted) for event in told if isinstance(event, TokensAccepted)} == {(3, 2)}
    ticks = [event for event in seen if isinstance(event, EngineTick)]
    assert [tick.waiting for tick in ticks] == [2, 1, 0]
    assert all(tick.pages_per_s > 0 for tick in ticks), "two pages were done before the scan was read"
    kinds = [type(event) for event in seen]
    assert kinds.index(EngineTick) < max(place for place, kind in enumerate(kinds) if kind is PageDone)


def test_time_that_runs_out_is_told_apart(scan):
    from ocria.cli.parse import exit_code

    cut = ReadText("only this", 0.8, "timeout", 8, 2, "time ran out after 2 s")
    document = ocria.parse(scan, reader=FakeReader([LINES[0], cut, LINES[2]]))
    assert document.pages[0].status == "timeout"
    assert "time ran out after 2 s" in document.pages[0].error
    assert "only this" in document.markdown, "what was read is kept"
    assert exit_code(document) == 8
    with_others = ocria.parse(mixed_pdf(pymupdf.open(stream=scan).tobytes(), scan), reader=FakeReader([cut]))
    assert {page.status for page in with_others.pages} == {"timeout", "blank"}
    assert exit_code(with_others) == 3


def test_cancel_keeps_the_pages_that_are_done(born_digital, scan):
    cancel = threading.Event()
    done = []
    document = None
    for event in ocria.stream(mixed_pdf(born_digital, scan), reader=FakeReader(LINES), cancel=cancel):
        if isinstance(event, ocria.events.PageDone):
            done.append(event.page)
            cancel.set()
        if isinstance(event, ocria.events.DocumentDone):
            document = event.document
    assert done == [1]
    assert document.status == "interrupted"
    assert [page.index for page in document.pages] == [1]


def test_cancel_stops_the_engine(scan):
    cancel, reader = threading.Event(), FakeReader(LINES)
    for event in ocria.stream(scan, reader=reader, cancel=cancel):
        if isinstance(event, ocria.events.TextDelta):
            cancel.set()
    assert reader.closed


def test_cancel_is_heeded_between_the_pages_of_a_batch(scan):
    with pymupdf.open(stream=scan) as pdf:
        pdf.insert_pdf(pymupdf.open(stream=scan))
        two = pdf.tobytes()
    flag = threading.Event()
    found = []
    for event in ocria.stream(two, reader=FakeReader(LINES), cancel=flag):
        if isinstance(event, ocria.events.LinesFound):
            found.append(event.page)
            flag.set()
    assert found == [1]
    assert event.document.status == "interrupted"
    assert event.document.pages == []


def test_json_follows_its_schema(born_digital, scan):
    for document in (
        ocria.parse(mixed_pdf(born_digital, scan), reader=FakeReader(LINES)),
        ocria.parse(mixed_pdf(born_digital, scan), mode="text"),
    ):
        data = json.loads(document.to_json())
        jsonschema.validate(data, SCHEMA)
        assert data["schema_version"] == SCHEMA["properties"]["schema_version"]["const"]
        assert [page["index"] for page in data["pages"]] == [1, 2, 3, 4]


def test_each_line_comes_with_its_box_and_confidence(scan):
    document = ocria.parse(scan, reader=FakeReader(LINES), mode="model")
    page = document.pages[0]
    assert [line.text for line in page.lines] == list(LINES)
    for line in page.lines:
        x0, y0, x1, y1 = line.box
        assert 0 <= x0 < x1 <= page.width
        assert 0 <= y0 < y1 <= page.height
        assert 0 < line.confidence <= 1
        assert line.status == "ok"
    assert len(json.loads(document.to_json())["pages"][0]["lines"]) == len(LINES)


def test_headings_of_one_size_have_one_level():
    pdf = pymupdf.open()
    for title, size in [("The Whole Book", 28), ("Chapter the First", 20), ("Chapter the Second", 20)]:
        page = pdf.new_page()
        page.insert_text((72, 100), title, fontname="hebo", fontsize=size)
        for row in range(6):
            page.insert_text((72, 140 + 15 * row), "Some words that make up a plain paragraph of text.", fontsize=11)
    headings = [b for b in ocria.parse(pdf.tobytes()).blocks if b.type in ("title", "heading")]
    levels = {b.text: b.markdown.split()[0] for b in headings}
    assert levels == {"The Whole Book": "#", "Chapter the First": "##", "Chapter the Second": "##"}


def test_a_stream_is_read_like_a_file(born_digital, tmp_path):
    path = tmp_path / "naïve 文档 #1?.pdf"
    path.write_bytes(born_digital)
    from_path, from_stream = ocria.parse(path), ocria.parse(io.BytesIO(born_digital))
    assert from_path.markdown == from_stream.markdown
    assert from_path.sha256 == from_stream.sha256
    assert from_path.path == str(path)
    assert from_stream.path == STDIN_NAME


def test_threads_do_not_disturb_each_other(born_digital, scan):
    content = mixed_pdf(born_digital, scan)
    expected = ocria.parse(content, reader=FakeReader(LINES)).markdown
    with ThreadPoolExecutor(4) as pool:
        parse = partial(ocria.parse, content)
        results = [pool.submit(parse, reader=FakeReader(LINES)) for _ in range(8)]
    assert [result.result().markdown for result in results] == [expected] * 8


def test_passwords(born_digital):
    pdf = pymupdf.open(stream=born_digital)
    locked = pdf.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open sesame", owner_pw="other")
    with pytest.raises(EncryptedError, match="encrypted"):
        ocria.parse(locked)
    with pytest.raises(EncryptedError, match="wrong"):
        ocria.parse(locked, password="nonsense")
    assert "captain" in ocria.parse(locked, password="open sesame").markdown


def test_wrong_options_are_named(born_digital):
    with pytest.raises(UsageError, match="unknown option pagez"):
        ocria.parse(born_digital, pagez="1")
    with pytest.raises(UsageError, match="mode must be one of"):
        ocria.parse(born_digital, mode="fast")
    with pytest.raises(UsageError, match="dpi"):
        ocria.parse(born_digital, dpi=5)
    with pytest.raises(UsageError, match="out of range"):
        ocria.parse(born_digital, pages="3")


@pytest.mark.parametrize(
    "options",
    [
        {"pages": 1}, {"pages": [1.0]}, {"pages": [True]}, {"batch": "4"}, {"batch": True}, {"dtype": "float99"},
        {"dialect": "latex"}, {"unit": "word"}, {"device": "foo"}, {"device": "cpu:0"},
        {"min_pixels": 9, "max_pixels": 8}, {"memory": "4X"}, {"memory": 0}, {"memory": True}, {"memory": "-1G"},
        {"memory": "9" * 400}, {"timeout": 0}, {"timeout": float("nan")}, {"timeout": float("inf")},
        {"timeout": True}, {"timeout": "9"}, {"compile": None}, {"graph": 1}, {"overlap": "no"}, {"ring": 3},
        {"ring": "16"}, {"verify": "loosely"}, {"draft_rows": 65},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(born_digital, options):
    with pytest.raises(UsageError, match=next(iter(options)).replace("pages", "page")):
        ocria.parse(born_digital, **options)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("4G", 4 << 30), ("512m", 512 << 20), ("1.5 GiB", 3 << 29), ("800 MB", 800 << 20), ("70k", 70 << 10),
     ("2T", 2 << 40), ("4096", 4096), (123, 123), (" 9 B ", 9)],
)  # fmt: skip
def test_sizes_of_memory(text, amount):
    assert ParseOptions(memory=text).memory_bytes == amount


def test_options_agree_with_those_of_the_engine():
    """The two lists are apart because the engine's loads torch."""
    from ocria.document import options as ours
    from ocria.runtime import options as engine

    assert ours.RULES == engine.RULES
    assert ours.MOST_DRAFT_ROWS == engine.MOST_DRAFT_ROWS
    assert set(ours.RINGS) == {0, *engine.RINGS}


def test_an_empty_model_name_is_not_the_embedded_model(scan):
    with pytest.raises(ModelNotFoundError):
        ocria.parse(scan, model="")


def test_a_text_stream_is_refused():
    with pytest.raises(UsageError, match="binary mode"):
        ocria.parse(io.StringIO("%PDF-1.7"))


def test_a_lost_page_is_an_error_and_a_page_with_gaps_a_warning(scan, born_digital):
    with pymupdf.open(stream=born_digital) as pdf:
        pdf.update_stream(pdf[0].get_contents()[0], b"BT ( never closed << ]] garbage \xff\xfe q Q q")
        damaged = pdf.tobytes()
    loop = ReadText("over and", 0.5, "degenerate", 8, 90, "degenerate")
    for content, level in ((damaged, "error"), (scan, "warning")):
        events = ocria.stream(content, pages=[1], reader=FakeReader([loop]))
        levels = {event.level for event in events if isinstance(event, ocria.events.Note)}
        assert levels - {"debug"} == {level}


def test_a_missing_model_ends_the_run(scan, tmp_path):
    with pytest.raises(ModelNotFoundError):
        ocria.parse(scan, model=str(tmp_path / "nothing-here"))


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        ocria.parse(tmp_path / "none.pdf")
    with pytest.raises(InputError, match="folder"):
        ocria.parse(tmp_path)
    (tmp_path / "empty.pdf").touch()
    with pytest.raises(InputError, match="empty"):
        ocria.parse(tmp_path / "empty.pdf")


def test_white_print_on_black_is_turned_for_the_model():
    white_on_black = 255 - draw_lines(LINES)
    reader = FakeReader(LINES)
    document = ocria.parse(scan_pdf(white_on_black), reader=reader)
    assert document.pages[0].status == "ok"
    assert all(np.median(crop) > 128 for crop in reader.seen[0])
    assert len(reader.seen[0]) == 3


def test_a_huge_page_is_rendered_within_bounds():
    pdf = pymupdf.open()
    page = pdf.new_page(width=14400, height=14400)
    page.insert_text((2000, 2000), "GIANT", fontsize=900)
    reader = FakeReader(["GIANT"], unit="page")
    ocria.parse(pdf.tobytes(), mode="model", reader=reader)
    height, width, _ = reader.seen[0][0].shape
    assert height * width <= 41_000_000


def test_an_image_file_is_one_page(tmp_path):
    Image.fromarray(draw_lines(LINES)).save(tmp_path / "a.png")
    document = ocria.parse(tmp_path / "a.png", reader=FakeReader(LINES))
    assert " ".join(document.text.split()) == " ".join(LINES)
