"""Shards, the checkpoint that they are, files in any store, and arithmetic. No Ray is needed."""

import json
import os
import random
import threading
import uuid

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

pytest.importorskip("pyarrow", reason="pyarrow is not installed: it comes with ocria[ray]")

from ocria.cluster.capacity import engine_days, engines_for, pages_per_hour
from ocria.cluster.control import STOP, Control
from ocria.cluster.done import NOT_DONE, Done, scan, written
from ocria.cluster.files import Store, full_name
from ocria.cluster.job import Receipt
from ocria.cluster.kept import KeptParts, Part, assembled
from ocria.cluster.options import ClusterOptions, parse_actors
from ocria.cluster.outcome import Outcome
from ocria.cluster.pace import Pace
from ocria.cluster.rows import Row
from ocria.cluster.run import _cause
from ocria.cluster.shards import (
    FOLDER,
    SCHEMA,
    decode,
    encode,
    entries,
    failed_line,
    page_lines,
    shard_name,
    without_failures,
)
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, ModelInfo, Page
from ocria.document.write.store import page_to_dict
from ocria.errors import EncryptedError, OutputError, UsageError

ROW = Row("the id", "/data/a.pdf", "1-3", "a.pdf", None)


def page(number, status="ok", words="Some *words* — 漢字"):
    block = Block("text", (1.0, 2.0, 3.0, 4.0), words, words, 0)
    return Page(number, status, 100.0, 200.0, 0, "model", "why", [block], tokens_out=7, seconds=0.5, error=None)


def document(*pages):
    return Document("/data/a.pdf", 9, "cafe", list(pages), ModelInfo("m", "1"))


def key():
    return uuid.uuid4().hex


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_shards_hold_what_they_are_given(kind):
    good, bad, locked = key(), key(), key()
    lines = page_lines(good, ROW, document(page(1), page(2)), ParseOptions())
    lines += page_lines(bad, ROW, document(page(1), page(3, "failed")), ParseOptions())
    lines.append(failed_line(locked, ROW, EncryptedError("a password is needed", cure="Give it")))
    data = encode(lines, kind)
    assert decode(data, kind) == lines
    assert {frozenset(line) for line in decode(data, kind)} == {frozenset(SCHEMA.names)}
    assert json.loads(lines[0]["json"])["blocks"][0]["text"] == "Some *words* — 漢字"
    found = {one.row: (one.outcome, one.code, one.pages) for one in entries(data, kind, "x")}
    assert found == {good: ("ok", 0, 2), bad: ("partial", 3, 2), locked: ("failed", 5, 0)}
    assert [line["row"] for line in decode(without_failures(data, kind), kind)] == [good, good]
    only_good = encode(lines[:2], kind)
    assert without_failures(only_good, kind) == only_good
    assert without_failures(encode(lines[2:], kind), kind) is None


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_damaged_shard_is_told(kind):
    data = encode(page_lines(key(), ROW, document(page(1)), ParseOptions()), kind)
    with pytest.raises(OutputError, match="damaged"):
        entries(data[: len(data) // 2], kind, "x")


def test_names_of_shards_tell_their_rows_in_any_order():
    rows = [key() for _ in range(5)]
    assert shard_name(rows, "jsonl") == shard_name(rows[::-1], "jsonl") != shard_name(rows[1:], "jsonl")


def test_the_checkpoint_finds_what_is_there_and_nothing_else():
    rows = [key() for _ in range(500)] + ["00" * 16, "ff" * 16, "ab" + "00" * 15]  # zeros at the end are no end
    codes = [random.choice([0, 1, 3]) for _ in rows]
    done = Done.of(zip(map(bytes.fromhex, rows), codes, strict=True))
    assert done.codes_of(rows) == codes
    assert done.codes_of([key() for _ in range(500)]) == [NOT_DONE] * 500
    assert done.codes_of(["ab" + "00" * 14 + "01"]) == [NOT_DONE]
    assert Done.of([]).codes_of([key()]) == [NOT_DONE]
    assert done.keys.dtype == np.dtype("S16")
    parts = [Done.of([(bytes.fromhex(row), code)]) for row, code in zip(rows, codes, strict=True)]
    assert Done.joined(parts).codes_of(rows) == codes
    assert Done.joined([]).codes_of([key()]) == [NOT_DONE]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_failures_are_forgotten_to_be_read_again(tmp_path, kind):
    store, good, bad = Store(str(tmp_path)), key(), key()
    lines = page_lines(good, ROW, document(page(1)), ParseOptions())
    failed = [failed_line(bad, ROW, EncryptedError("no"))]
    store.write(f"{FOLDER}/one.{kind}", encode(lines + failed, kind))
    store.write(f"{FOLDER}/two.{kind}", encode(failed, kind))
    both = {(bytes.fromhex(good), 0), (bytes.fromhex(bad), 5)}
    assert set(scan(store.url, f"one.{kind}", kind, False)) == both
    assert written(store, f"one.{kind}", kind, [good]) is None
    assert [one.row for one in written(store, f"one.{kind}", kind, [bad, good])] == [good, bad]
    assert scan(store.url, f"one.{kind}", kind, True) == [(bytes.fromhex(good), 0)]
    assert scan(store.url, f"two.{kind}", kind, True) == scan(store.url, f"two.{kind}", kind, False) == []
    assert store.names(FOLDER) == [f"one.{kind}"]
    assert decode(store.read(f"{FOLDER}/one.{kind}"), kind) == lines


class ByRename(LocalFileSystem):
    """A store whose puts can be seen half done."""

    protocol = ("byrename",)
    puts: list = []  # noqa: RUF012

    def pipe_file(self, path, value, **options):
        self.puts.append(path)
        super().pipe_file(path, value, **options)


@pytest.fixture
def stores(tmp_path, monkeypatch):
    fsspec.register_implementation("byrename", ByRename, clobber=True)
    monkeypatch.setattr(Store, "is_local", property(lambda self: not self.url.startswith(("byrename", "memory"))))
    return [Store(str(tmp_path / "a")), Store(f"memory://{uuid.uuid4().hex}"), Store(f"byrename://{tmp_path}/c")]


def test_files_appear_whole_in_any_store(stores):
    for store in stores:
        assert store.read("x/y") is None
        assert store.names("x") == []
        for data in (b"first", b"second, longer"):
            store.write("x/y.md", data)
            assert store.read("x/y.md") == data
        assert store.names("x", ".md") == store.names("x") == ["y.md"]
        store.remove("x", folder=True)
        store.remove("x", folder=True)
        assert store.read("x/y.md") is None
    assert ByRename.puts
    assert all(".ocria-" in path for path in ByRename.puts)  # no put under the name itself


def test_a_disk_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((OutputError, NotADirectoryError)):
        Store(str(tmp_path / "file")).write("x", b"1")


def test_kept_parts_become_the_document(tmp_path):
    kept = KeptParts(Store(str(tmp_path)), key())
    assert kept.load(0) is None
    parts = [
        Part(3, "cafe", None, None, [page_to_dict(page(3))]),
        Part(3, "cafe", None, ModelInfo("m", "1"), [page_to_dict(page(2)), page_to_dict(page(1))]),
    ]
    for number, part in enumerate(parts):
        kept.save(number, part)
    back = [kept.load(number) for number in range(2)]
    assert back == parts
    whole = assembled("/data/a.pdf", back)
    assert whole.pages == [page(1), page(2), page(3)]
    assert (whole.model, whole.page_count, whole.sha256, whole.seconds) == (ModelInfo("m", "1"), 3, "cafe", 1.5)
    kept.remove()
    assert kept.load(0) is None
    (tmp_path / ".ocria/parts/x").mkdir(parents=True)
    (tmp_path / ".ocria/parts/x/000000.json").write_text('{"pages": [{"index": 1}], "model": null}')
    assert KeptParts(Store(str(tmp_path)), "x").load(0) is None  # of another version


def test_one_of_the_parts_is_the_last():
    """Whoever comes last assembles, also when it asks again; with many at once still one."""
    control, last = Control([]), []
    threads = [threading.Thread(target=lambda n=n: last.append((n, control.part_done("r", n, 8)))) for n in range(8)]
    for thread in threads:
        thread.start()
        thread.join()
    (winner,) = [number for number, is_last in last if is_last]
    assert control.part_done("r", winner, 8)
    assert not any(control.part_done("r", number, 8) for number in range(8) if number != winner)


def test_who_was_read_is_not_blamed_for_who_killed_the_process():
    control = Control([])
    for times in range(1, 5):
        assert control.begin("innocent") == 1
        control.end("innocent")
        assert control.begin("killer") == times


def test_loads_are_counted_until_one_comes_through():
    control = Control([])
    assert [control.load() for _ in range(3)] == [1, 2, 3]
    control.loaded()
    assert control.load() == 1


def test_nothing_is_begun_after_a_stop():
    control = Control([])
    assert (control.begin("a"), control.begin("a"), control.begin("b")) == (1, 2, 1)
    control.end("a")
    assert control.begin("a") == 1
    control.stop()
    assert control.begin("c") == STOP
    assert control.is_stopped()


def test_lines_of_progress():
    pace = Pace()
    assert pace.line({"listed": 5}, {}, False, 100.0) == "0 of 5+ documents, 0 pages"
    line = pace.line({"listed": 9, "documents": 2, "pages": 30, "failed": 1, "bad_pages": 1}, {0: 2, 1: 1}, True, 110.0)
    assert line == "5 of 9 documents (3 of them before), 30 pages, 3.0 pages/s, 1 failed, 1 page failed, 0:20 left"


def test_capacity():
    pace = pages_per_hour(200, 3600.0)
    assert pace == 200
    assert engine_days(4800, pace) == 1.0
    assert engines_for(48_000, 5, pace) == 2
    assert engines_for(48_001, 5, pace) == 3
    assert engines_for(48_000, 5, pace, busy=0.5) == 4
    assert pages_per_hour(0, 0.0) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [{"shards": "csv"}, {"documents": ("docx",)}, {"rows_per_shard": 0}, {"pages_per_row": 0}, {"cores_per_actor": 0},
     {"max_errors": -1}, {"interval_s": 0}, {"actors": "0"}, {"actors": "4-2"}, {"actors": "many"}],
)  # fmt: skip
def test_options_out_of_range(wrong):
    with pytest.raises(UsageError):
        ClusterOptions("in", "out", **wrong)


def test_numbers_of_actors():
    assert parse_actors("4") == (4, 4)
    assert parse_actors("2-16") == (2, 16)
    assert full_name("x") == os.path.abspath("x")


def receipt(code=0, outcome="ok", bad=(), cure=None):
    return Receipt(key(), "/a.pdf", outcome, code, 3, 10, list(bad), 2.0, cure)


def test_receipts_are_counted():
    outcome = Outcome()
    outcome.take(receipt())
    outcome.take(receipt(3, "partial", [{"page": page, "status": "failed", "why": "x"} for page in (2, 3)]))
    outcome.take(receipt(5, "failed", [{"page": None, "status": "failed", "why": "locked"}], "Give it"))
    outcome.close(7, True, {0: 3, 3: 1})
    tally = outcome.tally
    assert (tally.ok, tally.partial, tally.failed, tally.skipped) == (1, 1, 1, 4)
    assert (tally.documents, tally.interrupted, outcome.bad_before) == (7, 0, 1)
    assert (tally.pages, tally.failed_pages, tally.tokens_out, outcome.engine_seconds) == (9, 2, 30, 6.0)
    assert [(one.pages, one.why, one.cure) for one in tally.failures] == [
        ((2, 3), "x", "--retry-failed reads it again"), ((), "locked", "Give it")
    ]  # fmt: skip
    assert [outcome.exit_code(fail_on) for fail_on in ("partial", "failure", "never")] == [1, 1, 0]
    assert receipt().from_json(receipt().to_json()).outcome == "ok"


@pytest.mark.parametrize(("listed", "listed_all", "left"), [(9, True, 8), (9, False, 8), (1, False, 1), (1, True, 0)])
def test_a_stopped_run_tells_what_is_left(listed, listed_all, left):
    outcome = Outcome(stopped=True)
    outcome.take(receipt())
    outcome.close(listed, listed_all, {})
    assert outcome.tally.interrupted == left
    assert outcome.exit_code("never") == (130 if left else 0)


def test_too_many_errors():
    outcome = Outcome(max_errors=1)
    for many in (False, True):
        outcome.take(receipt(4, "failed"))
        assert outcome.too_many_errors == many
    assert outcome.exit_code("never") == 1
    assert not Outcome().too_many_errors


def test_errors_of_tasks_keep_their_kind():
    """Ray wraps what a task raises, in `cause` and in the chain of the exception."""
    error = RuntimeError("of Ray")
    error.cause = ValueError("of Ray Data")
    error.cause.__cause__ = EncryptedError("locked", path="a.pdf", cure="Give it")
    found = _cause(error)
    assert (str(found), found.exit_code) == ("a.pdf: locked. Give it", 5)
    assert _cause(RuntimeError("many lines\nthe last one")).exit_code == 7
    assert "the last one" in str(_cause(RuntimeError("many lines\nthe last one")))
