import os
import stat

import pytest

from ocria.document.write.files import check_writable, write_atomically
from ocria.errors import OutputError


def test_content_is_whole_and_utf8(tmp_path):
    path = tmp_path / "a.md"
    write_atomically(path, "“ä” 文\r\n")
    assert path.read_bytes() == "“ä” 文\r\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_permissions_are_those_of_any_new_file_and_kept_on_replacing(tmp_path):
    path, other = tmp_path / "a.md", tmp_path / "b.md"
    write_atomically(path, "one")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    path.chmod(0o640)
    write_atomically(path, "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "a.md"
    path.write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


def test_bad_places_are_known_beforehand(tmp_path):
    check_writable(tmp_path / "a.md")
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(tmp_path / "none" / "a.md")
    with pytest.raises(OutputError, match="folder"):
        check_writable(tmp_path)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "a.md"
    link.symlink_to(tmp_path / "there" / "b.md")
    check_writable(link)
    write_atomically(link, "one")
    assert link.is_symlink()
    assert (tmp_path / "there" / "b.md").read_text() == "one"


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    # Open at both ends, so that neither side waits for the other.
    reader = os.open(pipe, os.O_RDWR)
    write_atomically(pipe, "one")
    assert os.read(reader, 10) == b"one"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_full_device_is_an_error():
    with pytest.raises(OutputError, match="No space left"):
        write_atomically("/dev/full", "one")


def test_surrogates_of_file_names_do_not_break_the_output(tmp_path):
    write_atomically(tmp_path / "a.json", "caf\udce9")
    assert (tmp_path / "a.json").read_text() == "caf?"
