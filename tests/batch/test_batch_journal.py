"""Journals and manifests survive an end at any byte."""

import os
import random

import pytest

from ocria.batch.journal import Journal, read_journal
from ocria.batch.manifest import FOLDER, Entry, Manifest, Stamp, known_outputs
from ocria.errors import OutputError


def test_a_journal_cut_at_any_byte_keeps_what_is_whole(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    records = [{"n": n, "text": rng.choice(["é\n", "\udcff", "", "x" * rng.randint(0, 40)])} for n in range(8)]
    path = tmp_path / "whole"
    ends = []
    journal = Journal(path)
    for record in records:
        journal.append(record)
        ends.append(path.stat().st_size)
    journal.close()
    content = path.read_bytes()
    assert read_journal(path) == records
    for cut in range(len(content) + 1):
        torn = tmp_path / "torn"
        torn.write_bytes(content[:cut])
        whole = [record for record, end in zip(records, ends, strict=True) if end <= cut]
        assert read_journal(torn) == whole
        journal = Journal(torn)
        journal.append({"after": cut})
        journal.close()
        # A record that was whole but for its line break is whole now.
        assert read_journal(torn)[-1] == {"after": cut}
        assert read_journal(torn)[: len(whole)] == whole


def test_a_damaged_line_costs_that_line(tmp_path):
    journal = Journal(tmp_path / "j")
    for n in range(5):
        journal.append({"n": n})
    journal.close()
    content = bytearray((tmp_path / "j").read_bytes())
    content[content.index(b'"n":2') + 4] = ord("7")
    (tmp_path / "j").write_bytes(content)
    assert [record["n"] for record in read_journal(tmp_path / "j")] == [0, 1, 3, 4]


def test_no_journal_is_an_empty_one(tmp_path):
    assert read_journal(tmp_path / "none") == []
    with pytest.raises(OutputError):
        Journal(tmp_path / "none" / "j")


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "j")
    journal.append({"n": 1})
    before = (tmp_path / "j").read_bytes()
    real = os.write
    calls = []

    def full(file, data):
        if calls:
            raise OSError(28, "No space left on device")
        calls.append(1)
        return real(file, bytes(data)[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OutputError, match="No space left"):
        journal.append({"n": 2})
    monkeypatch.undo()
    assert (tmp_path / "j").read_bytes() == before
    journal.append({"n": 3})
    journal.close()
    assert [record["n"] for record in read_journal(tmp_path / "j")] == [1, 3]


def entry(name, status="ok", **outputs):
    return Entry(name, name, "s", "0" * 64, Stamp(1, 2, 3, 4), status, outputs=outputs)


def test_a_manifest_remembers_and_knows_its_own(tmp_path):
    (tmp_path / FOLDER).mkdir()
    manifest = Manifest(tmp_path)
    manifest.begin("a.pdf", "a.pdf", "key")
    (tmp_path / "a.pdf.md").write_bytes(b"one")
    digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    assert not manifest.is_own("a.pdf.md")
    manifest.announce("a.pdf", {"a.pdf.md": digest})
    assert manifest.is_own("a.pdf.md")
    manifest.close()

    manifest = Manifest(tmp_path)  # killed between the announcement and the end
    assert manifest.unfinished == {"a.pdf": ["a.pdf.md"]}
    assert manifest.is_own("a.pdf.md")
    assert manifest.stores == {"a.pdf": "key"}
    done = entry("a.pdf")
    done.outputs = {"a.pdf.md": digest}
    manifest.end(done)
    manifest.close()

    manifest = Manifest(tmp_path)
    assert manifest.unfinished == {}
    assert manifest.entries == {"a.pdf": done}
    assert manifest.are_whole(done)
    (tmp_path / "a.pdf.md").write_bytes(b"two")
    assert not manifest.are_whole(done)
    assert not manifest.is_own("a.pdf.md")
    assert known_outputs(tmp_path) == {"a.pdf.md"}
    assert known_outputs(tmp_path / "none") == set()
    manifest.close()


def test_the_folder_of_a_newer_version_is_left_alone(tmp_path):
    (tmp_path / FOLDER).mkdir()
    journal = Journal(tmp_path / FOLDER / "manifest.jsonl")
    journal.append({"format": 999})
    journal.close()
    with pytest.raises(OutputError, match="newer"):
        Manifest(tmp_path)


def test_a_file_changed_just_now_proves_nothing(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1")
    assert Stamp.of(path) is None
    assert Stamp.of(tmp_path / "none") is None
    old = path.stat().st_mtime - 100
    os.utime(path, (old, old))
    assert Stamp.of(path) is None  # its ctime is new: times of modification can be set at will
