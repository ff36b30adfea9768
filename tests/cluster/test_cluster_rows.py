"""Which rows a source means, and what tells them apart. No Ray is needed."""

import json
import os
import random
import tracemalloc
import uuid
from itertools import islice

import fsspec
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: it comes with ocria[ray]")
import pyarrow.parquet as parquet  # noqa: E402

from ocria.cluster.files import Store, full_name, is_local, stamp  # noqa: E402
from ocria.cluster.job import Fault, Job, rows_of, rows_table  # noqa: E402
from ocria.cluster.rows import Row, check_source, document_id, find_rows, place_of, row_key  # noqa: E402
from ocria.errors import EncryptedError, InputError, UsageError  # noqa: E402


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(20))


def paths(source, out="/nowhere/out"):
    return [row.path for row in find_rows(str(source), str(out))]


def test_a_folder_with_all_below_it(tmp_path):
    touch(tmp_path, "b.pdf", "a10.pdf", "a2.PNG", "sub/deep/c.tif")
    touch(tmp_path, "notes.xyz", ".hidden.pdf", ".git/d.pdf", "out/e.pdf")
    rows = list(find_rows(str(tmp_path), str(tmp_path / "out")))
    assert [row.place for row in rows] == ["a2.PNG", "a10.pdf", "b.pdf", "sub/deep/c.tif"]
    assert [row.path for row in rows] == [str(tmp_path / row.place) for row in rows]
    assert all(row.stamp == stamp(row.path) for row in rows)
    assert len({row.id for row in rows}) == 4


def test_the_same_by_url_and_by_another_working_folder(tmp_path, monkeypatch):
    touch(tmp_path, "in/a.pdf")
    monkeypatch.chdir(tmp_path)
    assert paths("in") == paths(f"file://{tmp_path}/in") == paths(tmp_path / "in") == [f"{tmp_path}/in/a.pdf"]


ODD_NAMES = ("a b#1%20.pdf", "a::b.pdf", "new\nline.pdf", "文 1.pdf", "q?*[1].pdf", "~x.pdf", os.fsdecode(b"\xff.pdf"))


def test_names_are_taken_as_they_are(tmp_path):
    """No decoding, no patterns, no chains of URLs: what is listed is what is opened, of each file the same."""
    touch(tmp_path, *ODD_NAMES)
    rows = list(find_rows(str(tmp_path), "/out"))
    assert {row.path for row in rows} == {f"{tmp_path}/{name}" for name in ODD_NAMES}
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps({"path": name}) for name in ODD_NAMES))
    listed = [name for name in ODD_NAMES if "\n" not in name]
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbf" + "\n".join(listed).encode("utf-8", "surrogateescape"))
    assert paths(tmp_path / "m.jsonl") == [f"{tmp_path}/{name}" for name in ODD_NAMES]
    assert paths(tmp_path / "list.txt") == [f"{tmp_path}/{name}" for name in listed]
    for row in rows:
        assert paths(row.path) == [row.path]
        assert is_local(row.path)
        assert row.stamp == stamp(row.path) is not None
    with pytest.raises(UsageError, match="chained URLs"):
        check_source("zip://a.pdf::/x.zip")


def test_links(tmp_path):
    """Taken for what they lead to, and each folder once, also in a circle."""
    touch(tmp_path, "in/a.pdf", "in/sub/b.pdf", "else/c.pdf", "else/deep/d.pdf")
    for link, there in (("up", ".."), ("self", "."), ("twice", "sub"), ("x", "../else"), ("y", "../else"),
                        ("l.pdf", "a.pdf"), ("gone.pdf", "nothing")):  # fmt: skip
        os.symlink(there, tmp_path / "in" / link)
    os.symlink("../../in", tmp_path / "else/deep/back")
    rows = {row.place: row for row in find_rows(str(tmp_path / "in"), "/out")}
    assert sorted(rows) == ["a.pdf", "gone.pdf", "l.pdf", "sub/b.pdf", "x/c.pdf", "x/deep/d.pdf"]
    assert rows["l.pdf"].stamp == rows["a.pdf"].stamp == stamp(f"{tmp_path}/in/l.pdf")


def test_tables_with_empty_cells(tmp_path):
    (tmp_path / "m.csv").write_text('\ufeffid,path,pages\n1,"a,b.pdf",\n,s3://b/c.pdf,"1-3,5"\n', encoding="utf-8")
    parquet.write_table(pa.table({"path": ["a,b.pdf", "c"], "pages": [float("nan"), None]}), tmp_path / "m.parquet")
    rows = list(find_rows(str(tmp_path / "m.csv"), "/out"))
    assert [(row.path, row.pages) for row in rows] == [(f"{tmp_path}/a,b.pdf", None), ("s3://b/c.pdf", "1-3,5")]
    assert [row.id for row in rows] == ["1", document_id("s3://b/c.pdf")]
    assert [row.pages for row in find_rows(str(tmp_path / "m.parquet"), "/out")] == [None, None]
    (tmp_path / "m.csv").write_bytes(b"path\n\xff\n")
    with pytest.raises(InputError, match="the manifest cannot be read"):
        list(find_rows(str(tmp_path / "m.csv"), "/out"))


def test_a_pattern(tmp_path):
    touch(tmp_path, "a1.pdf", "a10.pdf", "a2.pdf", "b.pdf", "sub/a3.pdf")
    assert paths(tmp_path / "a*.pdf") == [str(tmp_path / name) for name in ("a1.pdf", "a2.pdf", "a10.pdf")]
    assert len(paths(f"{tmp_path}/**/*.pdf")) == 5
    assert len(paths(f"{tmp_path}/**/*.pdf", tmp_path / "sub")) == 4  # outputs are no inputs


def test_a_store_that_is_no_disk():
    top = f"memory://in{uuid.uuid4().hex}"
    for name in ("x/a.pdf", "b.pdf"):
        with fsspec.open(f"{top}/{name}", "wb") as file:
            file.write(b"abc")
    rows = list(find_rows(top, f"{top}/out"))
    assert [(row.path, row.place) for row in rows] == [(f"{full_name(top)}/{p}", p) for p in ("b.pdf", "x/a.pdf")]
    assert rows[0].stamp == stamp(rows[0].path) is not None


def test_lists_and_manifests(tmp_path):
    (tmp_path / "list.txt").write_text("a.pdf\n\n/data/b.pdf\r\ns3://bucket/c.pdf\n")
    assert paths(tmp_path / "list.txt") == [f"{tmp_path}/a.pdf", "/data/b.pdf", "s3://bucket/c.pdf"]
    wanted = [{"path": "a.pdf", "pages": "1-3"}, {"path": "/b.pdf", "id": "the b"}, {"path": "a.pdf", "pages": "4-"}]
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps(one) for one in wanted))
    parquet.write_table(pa.Table.from_pylist(
        [{"path": None, "pages": None, "id": None} | one for one in wanted]), tmp_path / "m.parquet")  # fmt: skip
    for name in ("m.jsonl", "m.parquet"):
        rows = list(find_rows(str(tmp_path / name), "/out"))
        assert [row.path for row in rows] == [f"{tmp_path}/a.pdf", "/b.pdf", f"{tmp_path}/a.pdf"]
        assert [row.pages for row in rows] == ["1-3", None, "4-"]
        assert [row.id for row in rows] == [document_id(rows[0].path), "the b", rows[0].id]
        assert len({row.place for row in rows}) == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [("{", "line 2 is no JSON"), ("[1]", "line 2 has no path"), ('{"path": "\\ud800"}', "line 2: no file has")],
)
def test_a_line_that_cannot_be_understood(tmp_path, line, why):
    (tmp_path / "m.jsonl").write_text(f'{{"path": "a.pdf"}}\n{line}\n')
    rows = find_rows(str(tmp_path / "m.jsonl"), "/out")
    assert next(rows).path == f"{tmp_path}/a.pdf"
    with pytest.raises(InputError, match=why):
        next(rows)


def test_what_is_missing(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(find_rows(str(tmp_path / "m.jsonl"), "/out"))
    (tmp_path / "m.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="cannot be read"):
        list(find_rows(str(tmp_path / "m.parquet"), "/out"))
    with pytest.raises(UsageError, match="cannot be opened"):
        list(find_rows("nonsense://bucket/x", "/out"))
    assert stamp("nonsense://bucket/x") is stamp(f"{tmp_path}/gone.pdf") is None


def test_a_source_that_is_missing_is_told_before_anything_starts(tmp_path):
    check_source(str(tmp_path))
    check_source(f"{tmp_path}/*.pdf")
    with pytest.raises(InputError, match="no such file or folder"):
        check_source(f"{tmp_path}/gone.jsonl")


def test_rows_come_one_by_one(tmp_path):
    """Of a long manifest only what is asked for is read."""
    with open(tmp_path / "m.jsonl", "w", encoding="ascii") as file:
        file.writelines(f'{{"path": "/data/{number:09}.pdf"}}\n' for number in range(200_000))
    tracemalloc.start()
    first = list(islice(find_rows(str(tmp_path / "m.jsonl"), "/out"), 100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(first) == 100
    assert peak < 3 << 20  # the file alone has 6 MB


def test_keys_tell_rows_apart():
    row = Row("id", "/a.pdf", None, "a.pdf", None)
    variants = [
        row_key("s", row, "1 x"), row_key("t", row, "1 x"), row_key("s", row, "2 x"), row_key("s", row, None),
        row_key("s", Row("id", "/a.pdf", "1-2", "a.pdf", None), "1 x"),
        row_key("s", Row("id", "/b.pdf", None, "a.pdf", None), "1 x"),
    ]  # fmt: skip
    assert len(set(variants)) == len(variants)
    assert variants[0] == row_key("s", Row("id", "/a.pdf", None, "elsewhere", "old"), "1 x")
    assert all(len(bytes.fromhex(key)) == 16 for key in variants)


def test_places_stay_below_the_folder():
    assert place_of("/a/../../b/x.pdf", None) == "a/b/x.pdf"
    assert place_of("s3://bucket/x.pdf", "1-3, 8") == "bucket/x.pdf.p1-3+8"
    assert place_of("/", "1") == "root.p1"
    assert len(place_of("/" + "x" * 250 + ".pdf", None)) <= 200


def test_rows_and_jobs_travel_whole():
    """Names of files may hold bytes that are no UTF-8."""
    row = Row("id", os.fsdecode(b"/a\xff.pdf"), "1-", os.fsdecode(b"a\xff.pdf"), "3 4.5")
    assert rows_of(rows_table([row])) == [row]
    fault = Fault.of(EncryptedError("a password is needed", cure="Give it"))
    for job in (Job("k" * 32, row, (1, 2, 5), 9, "abc", 1, 3), Job("k" * 32, row, fault=fault)):
        assert Job.from_json(job.to_json()) == job
    assert (fault.error("x").exit_code, str(fault.error("x"))) == (5, "x: a password is needed. Give it")


def test_random_folders_give_each_file_once(tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    names = {"/".join(draw.choices("abcd", k=draw.randint(1, 4))) + f"/{n}.pdf" for n in range(60)}
    touch(tmp_path, *names)
    assert sorted(paths(tmp_path)) == sorted(str(tmp_path / name) for name in names)
    assert Store(str(tmp_path)).is_local
