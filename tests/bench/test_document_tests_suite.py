"""Document tests as a whole: pages drawn here, files of olmOCR-bench, turns of the readers, rates, the command."""

import json
import random
import sys

import numpy as np
import pymupdf
import pytest
from PIL import Image

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")
pytest.importorskip("scipy", reason="intervals are compared with it")

import accuracy
import document_tests.command as command
from document_tests import outputs, own_pages, own_scans, suite
from document_tests.intervals import over_pages, wilson
from document_tests.olmocr import olmocr_tests
from document_tests.own_pages import Made
from document_tests.rows import BadRow, Test, as_test, check_of, read_rows
from document_tests.run import kind_rates, pass_rates, run_tests, time_rows
from document_tests.tables import rate_table
from scipy.stats import binomtest


@pytest.fixture
def made(tmp_path):
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return Made(tmp_path, random.Random(seed))


def all_tests(made):
    return [as_test(row, row["group"], made.folder, "row") for row in made.rows]


def drawn_text(path, page):
    """What was drawn, in the order of drawing, without what stands at the edges of the page."""
    with pymupdf.open(path) as document:
        pages = [document[page - 1]] if page else list(document)
        texts = []
        for one in pages:
            one.set_rotation(0)
            texts.append(one.get_text(clip=pymupdf.Rect(0, 52, 595, 798) if path.stem == "running" else None))
    return "\n".join(texts)


@pytest.mark.parametrize("draw", own_pages.MAKERS)
def test_own_pages_keep_what_was_drawn(made, draw):
    draw(made)
    tests = all_tests(made)
    assert len({test.id for test in tests}) == len(tests)
    for test in tests:
        text = drawn_text(test.path, test.page)
        if test.kind != "table":
            assert test.check.failure(text) is None, test.id
        if test.kind in ("present", "order", "table"):
            assert test.check.failure("nothing of that") is not None, test.id
        if test.kind == "absent":
            with pymupdf.open(test.path) as document:
                assert test.check.failure(" ".join(page.get_text() for page in document)), test.id


def test_cells_of_the_ruled_table(made):
    own_pages.table(made, ruled=True)
    with pymupdf.open(made.folder / "table_ruled.pdf") as document:
        found = document[0].find_tables().tables[0].rows
        rows = [[document[0].get_textbox(box).strip() for box in row.cells] for row in found]
    markup = "<table>" + "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows) + "</table>"
    mirrored = "<table>" + "".join("<tr>" + "".join(f"<td>{c}" for c in row[::-1]) for row in rows[::-1]) + "</table>"
    for test in all_tests(made):
        if test.kind == "table":
            assert test.check.failure(markup) is None
            assert test.check.failure(mirrored) is not None


def test_scans_are_worn_and_turned(made):
    own_scans.text_scan(made, "a", own_scans.Wear(dpi=50, noise=15), turn=90)
    own_scans.receipt(made, 1, own_scans.Wear(dpi=60))
    own_scans.scan_of(made, "b", own_scans.Wear(dpi=50), lambda pdf: own_pages.columns(made, 2, pdf))
    assert {row["pdf"] for row in made.rows} == {"scan_a.png", "receipt_1.png", "b.png"}
    with Image.open(made.folder / "scan_a.png") as image:
        assert image.width > image.height
        assert round(image.info["dpi"][0]) == 50
        grey = np.asarray(image, dtype=float)
    assert 5 < grey[:20].std() < 40  # noise on empty paper
    assert grey.min() < 120
    all_tests(made)  # rows say checks


def test_the_same_seed_draws_the_same_texts(tmp_path):
    rows = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        (tmp_path / name).mkdir()
        again = Made(tmp_path / name, random.Random(seed))
        own_pages.report(again)
        rows.append(again.rows)
    assert rows[0] == rows[1] != rows[2]


def test_facts_about_samples_are_well_formed(tmp_path):
    rows = [row for _, row in read_rows(suite.FACTS)]
    tests = [as_test(row, row["group"], tmp_path, where) for where, row in read_rows(suite.FACTS)]
    assert len({test.id for test in tests}) == len(tests)
    assert all(test.check is not None for test in tests)
    # Quotations of other people's documents stay short.
    quoted = [str(row.get(name, "")) for row in rows for name in ("text", "before", "after", "cell")]
    assert max(map(len, quoted)) <= 100
    assert suite.sample_tests(tmp_path) == []  # no samples, no tests


@pytest.fixture
def bench(tmp_path):
    """A folder in the layout of olmOCR-bench with two PDFs, one in a folder of its own."""
    root = tmp_path / "bench"
    (root / "pdfs" / "more").mkdir(parents=True)
    for name, text in (("one.pdf", "Seven brown foxes"), ("more/two.pdf", "")):
        with pymupdf.open() as document:
            page = document.new_page()
            if text:
                page.insert_text((72, 72), text)
            document.save(root / "pdfs" / name)
    first = {"pdf": "one.pdf", "page": 1}
    rows = [
        first | {"id": "a", "type": "present", "text": "Seven", "max_diffs": 0, "checked": "verified", "url": None},
        first | {"id": "b", "type": "absent", "text": "Eight", "first_n": None},
        first | {"id": "c", "type": "order", "before": "Seven", "after": "foxes"},
        first | {"id": "d", "type": "math", "math": "x^2"},
        first | {"id": "e", "type": "footnote", "marker": "1"},
    ]
    (root / "texts.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    two = {"pdf": "more/two.pdf", "page": 1, "id": "f", "type": "baseline", "max_length": 0}
    (root / "blanks.jsonl").write_text(json.dumps(two), encoding="utf-8")
    return root


class Fixed:
    """A reader that gives one text for everything."""

    def __init__(self, name, text, seconds=1.0):
        self.name, self._text, self._seconds = name, text, seconds
        self.seen = []

    def read(self, path, page):
        self.seen.append((path.name, page))
        return None if self._text is None else outputs.Output(self._text, self._seconds)


def test_files_of_olmocr_bench(bench):
    tests = olmocr_tests(bench)
    assert [(test.id, test.group) for test in tests] == [
        ("f", "blanks.jsonl"),
        *((name, "texts.jsonl") for name in "abcde"),
        ("one.pdf_baseline", "baseline"),
    ]
    right, wrong = Fixed("right", "**Seven** brown foxes"), Fixed("wrong", "foxes, not Seven: Eight")
    outcome = run_tests(tests, [right, wrong], quiet=True)
    assert [test.kind for test in outcome.not_run] == ["math", "footnote"]
    rates = pass_rates(outcome.results)
    assert [rates["texts.jsonl"][name]["passed"] for name in ("right", "wrong")] == [3, 1]
    assert rates["texts.jsonl"]["right"]["total"] == 3  # math and footnote count nowhere
    assert rates["blanks.jsonl"]["right"]["passed"] == 0
    assert rates["all"]["right"]["total"] == 5
    assert kind_rates(outcome.results)["baseline"]["wrong"] == {"passed": 1, "total": 2}
    assert sorted(right.seen) == [("one.pdf", 1), ("two.pdf", 1)]  # one reading of each page


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"pdf": "one.pdf", "page": 1, "id": "x", "type": "present"}', "no text"),
        ('{"pdf": "one.pdf", "page": 1, "id": "x", "type": "order", "before": "a", "after": " "}', "no after"),
        ('{"pdf": "one.pdf", "page": 0, "id": "x", "type": "baseline"}', "pages count from 1"),
        ('{"pdf": "one.pdf", "page": 1, "id": "x", "type": "present", "text": "a", "max_diffs": -1}', "max_diffs"),
        ('{"page": 1, "id": "x", "type": "baseline"}', "no pdf"),
        ('{"pdf": "one.pdf", "page": 1, "type": "baseline"}', "no id"),
        ('{"pdf": "one.pdf", "page": 1, "id": "x"}', "no type"),
        ('{"pdf": "none.pdf", "page": 1, "id": "x", "type": "baseline"}', "missing"),
        ('{"pdf": "one.pdf", "page": 1, "id": "a", "type": "baseline"}', "texts.jsonl:1"),
        ("[1]", "not an object"),
        ("{", "Expecting"),
    ],
)
def test_bad_rows_are_named(bench, row, why):
    with (bench / "texts.jsonl").open("a", encoding="utf-8") as file:
        file.write(row)
    with pytest.raises(BadRow, match=rf"texts.jsonl:10: .*{why}"):
        olmocr_tests(bench)


def test_a_folder_of_another_kind(tmp_path):
    with pytest.raises(BadRow, match="jsonl"):
        olmocr_tests(tmp_path)


def test_unknown_fields_are_no_matter():
    row = {"type": "blank", "max_length": None, "url": "x", "checked": "verified"}
    assert check_of(row).max_length == 0


def test_readers_take_turns_and_an_error_fails(tmp_path):
    class Broken:
        name = "broken"

        def read(self, path, page):
            calls.append(self.name)
            raise OSError("gone")

    class Noted(Fixed):
        def read(self, path, page):
            calls.append(self.name)
            return super().read(path, page)

    calls = []
    tests = [
        Test(f"{n}", "g", "present", tmp_path / f"{n}.pdf", 1, check_of({"type": "present", "text": "x"}))
        for n in range(4)
    ]
    readers = [Noted("a", "x"), Broken(), Noted("skips", None)]
    outcome = run_tests(tests, readers, quiet=True)
    assert calls == ["a", "broken", "skips", "broken", "skips", "a", "skips", "a", "broken", "a", "broken", "skips"]
    rates = pass_rates(outcome.results)["all"]
    assert (rates["a"]["passed"], rates["a"]["total"]) == (4, 4)
    assert (rates["broken"]["passed"], rates["broken"]["total"]) == (0, 4)
    assert "skips" not in rates  # what a reader does not read is no failure
    assert any("OSError: gone" in (result.failure or "") for result in outcome.results)
    assert rate_table({"all": rates}, ["a", "skips"], "class")[-1].endswith(" -")


def test_times_are_medians_over_pages_that_both_read(tmp_path):
    check = check_of({"type": "not_empty"})
    tests = [Test(str(n), "g", "not_empty", tmp_path / str(n), None, check) for n in range(3)]
    outcome = run_tests(tests, [Fixed("ocria auto", "x", 0.5), Fixed("tesseract", "x", 2.0)], quiet=True)
    outcome.seconds[tests[0].path, None].pop("tesseract")
    assert time_rows(outcome, "ocria auto", "tesseract") == {"g": {"pages": 2, "mine": 0.5, "peer": 2.0, "ratio": 0.25}}


def test_wilson_is_that_of_scipy():
    for _ in range(200):
        total = random.randint(1, 400)
        passed, confidence = random.randint(0, total), random.choice([0.8, 0.95, 0.99])
        theirs = binomtest(passed, total).proportion_ci(confidence, method="wilson")
        assert wilson(passed, total, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


def test_bootstrap_draws_pages():
    # Ten pages that pass whole or fail whole are ten draws, however many tests each has.
    low, high = over_pages([(20, 20)] * 5 + [(0, 20)] * 5)
    assert low < 0.3
    assert high > 0.7
    narrow = wilson(100, 200)
    assert high - low > 2 * (narrow[1] - narrow[0])
    assert over_pages([(3, 3)] * 4) == (1.0, 1.0)
    assert over_pages([]) == (0.0, 1.0)


def test_drawn_pages_and_image_files(tmp_path):
    path = tmp_path / "two pages.pdf"
    with pymupdf.open() as document:
        for number in (1, 2):
            document.new_page(width=200, height=100).insert_text((10, 50), f"page {number}")
        document.save(path)
    images, seconds = outputs.drawn(path, None, tmp_path / "pictures")
    assert len(images) == 2
    assert seconds > 0
    with Image.open(images[0]) as image:
        assert (image.mode, image.size) == ("L", (556, 278))  # 200 dpi, sizes rounded up
    assert outputs.drawn(path, 2, tmp_path / "pictures")[0] == [images[1]]
    assert outputs.drawn(images[0], 1, tmp_path) == ([images[0]], 0.0)


def test_text_layer_and_images(tmp_path, made):
    pytest.importorskip("pymupdf4llm")
    own_pages.columns(made, 2)
    output = outputs.TextLayer().read(made.folder / "columns_2.pdf", 1)
    baseline = [test for test in all_tests(made) if test.group == "baseline"]
    assert baseline
    assert all(test.check.failure(output.markdown) is None for test in baseline)
    assert outputs.TextLayer().read(tmp_path / "scan.PNG", 1) is None


def test_rapidocr_lines_become_text(tmp_path, monkeypatch):
    class Engine:
        def __init__(self, params):
            assert params["EngineConfig.onnxruntime.intra_op_num_threads"] == 3

        def __call__(self, path):
            found = () if "blank" in path else ("Seven", "brown foxes")
            return type("Result", (), {"txts": found or None})

    monkeypatch.setitem(sys.modules, "rapidocr", type("rapidocr", (), {"RapidOCR": Engine}))
    reader = outputs.RapidOcrText(3, tmp_path)
    assert reader.read(tmp_path / "a.png", 1).markdown == "Seven\nbrown foxes"
    assert reader.read(tmp_path / "blank.png", 1).markdown == ""


def test_absent_peers_are_told(bench, monkeypatch, capsys):
    def make(name, **settings):
        if name == "auto":
            return Fixed("ocria auto", "Seven brown foxes")
        raise outputs.ReaderMissing(f"{name} is not installed")

    monkeypatch.setattr(command, "make_reader", make)
    assert accuracy.main(["--olmocr-bench", str(bench)]) == 0
    out, _ = capsys.readouterr()
    document = json.loads(out.splitlines()[-1])["document_tests"]
    assert document["readers"] == ["ocria auto"]
    assert document["rates"]["texts.jsonl"]["ocria auto"]["passed"] == 3
    assert document["not_run"] == {"math": 1, "footnote": 1}
    assert "Not compared: rapidocr is not installed." in out
    assert "Not run, and counted nowhere above: footnote (1), math (1)." in out
    assert "blank page" in out  # a failed test is listed with its reason


def test_a_bad_folder_ends_with_a_message(tmp_path, capsys):
    assert accuracy.main(["--olmocr-bench", str(tmp_path)]) == 2
    assert "jsonl" in capsys.readouterr().err


def test_limit_keeps_whole_pages(bench):
    tests = olmocr_tests(bench)
    kept = command.limited(tests, 1)
    assert {test.path.name for test in kept} == {"one.pdf", "two.pdf"}
    assert kept == tests
    assert command.limited(tests, 0) == []
