"""Which documents a command line means."""

import io
import os
import sys

import pytest

from ocria.batch.inputs import SUFFIXES, Input, find_inputs, names_from, natural_key, open_input
from ocria.errors import InputError, UsageError

TREE = [
    "b.pdf", "a10.pdf", "a2.PNG", "A3.pdf", "notes.xyz", ".hidden.pdf", "none", "sub/c.pdf", "sub/deep/d.Tiff",
    "sub/.git/e.pdf", "old/f.pdf", "old/x/g.pdf",
]  # fmt: skip


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in TREE:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "in"


def places(found):
    return [item.place for item in found.inputs]


def test_a_folder_and_its_own_files(tree):
    found = find_inputs(["in"])
    assert places(found) == ["a2.PNG", "A3.pdf", "a10.pdf", "b.pdf"]
    assert [os.path.basename(path) for path in found.ignored] == ["none", "notes.xyz"]
    assert found.many
    assert [item.path for item in found.inputs] == [os.path.join("in", place) for place in places(found)]


def test_folders_in_folders(tree):
    assert places(find_inputs(["in"], recursive=True)) == [
        "a2.PNG", "A3.pdf", "a10.pdf", "b.pdf", "old/f.pdf", "old/x/g.pdf", "sub/c.pdf", "sub/deep/d.Tiff",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["*.png"], [], ["a2.PNG"]),
        (["C.PDF"], [], ["sub/c.pdf"]),
        (["sub"], [], ["sub/c.pdf", "sub/deep/d.Tiff"]),
        (["sub/*"], ["deep"], ["sub/c.pdf"]),
        (["sub/*", "a*"], ["*.pdf"], ["a2.PNG", "sub/deep/d.Tiff"]),
        (["**/c.pdf", "**/b.pdf"], [], ["b.pdf", "sub/c.pdf"]),
        ([], ["old", "sub", "a?0.pdf"], ["a2.PNG", "A3.pdf", "b.pdf"]),
        ([], ["OLD/x"], ["a2.PNG", "A3.pdf", "a10.pdf", "b.pdf", "old/f.pdf", "sub/c.pdf", "sub/deep/d.Tiff"]),
    ],
)
def test_include_and_exclude(tree, include, exclude, expected):
    assert places(find_inputs(["in"], recursive=True, include=include, exclude=exclude)) == expected


def test_patterns_are_what_a_shell_makes_of_them(tree):
    assert places(find_inputs(["in/*.pdf"])) == ["in/A3.pdf", "in/a10.pdf", "in/b.pdf"]
    deep = find_inputs(["in/**/*.pdf"])
    assert places(deep) == ["in/A3.pdf", "in/a10.pdf", "in/b.pdf", "in/old/f.pdf", "in/old/x/g.pdf", "in/sub/c.pdf"]
    assert places(find_inputs([item.path for item in deep.inputs])) == places(deep)
    assert places(find_inputs(["in/*.xyz"])) == ["in/notes.xyz"]
    some = find_inputs(["in/n*", "in/b*"])
    assert places(some) == ["in/b.pdf"]
    assert len(some.ignored) == 2


def test_a_file_with_the_name_of_a_pattern_is_a_file(tree):
    (tree / "b[1].pdf").write_bytes(b"x")
    found = find_inputs(["in/b[1].pdf"])
    assert places(found) == ["in/b[1].pdf"]
    assert not found.many


def test_what_is_named_is_tried_and_once(tree):
    found = find_inputs(["in/notes.xyz", "in/missing.pdf", "./in/b.pdf", str(tree / "b.pdf"), "in", "in/../in/b.pdf"])
    assert places(found)[:3] == ["in/notes.xyz", "in/missing.pdf", "in/b.pdf"]
    assert sum(item.path.endswith("b.pdf") for item in found.inputs) == 1
    assert len(found.repeated) == 3


def test_paths_that_are_absolute_or_climb_leave_their_name(tree, monkeypatch):
    monkeypatch.chdir(tree / "sub")
    assert places(find_inputs([str(tree / "b.pdf"), "../a10.pdf", "deep/../c.pdf"])) == ["b.pdf", "a10.pdf", "c.pdf"]


def test_several_folders_keep_their_names(tree):
    assert places(find_inputs(["in/sub", "in/old"])) == ["sub/c.pdf", "old/f.pdf"]
    assert places(find_inputs(["in/sub", "in/sub/"])) == ["c.pdf"]


def test_loops_of_links(tree):
    (tree / "sub" / "up").symlink_to(tree)
    (tree / "sub" / "self").symlink_to(tree / "sub")
    (tree / "dangling.pdf").symlink_to(tree / "nowhere")
    (tree / "link.pdf").symlink_to(tree / "b.pdf")
    found = places(find_inputs(["in"], recursive=True))
    assert "link.pdf" in found
    assert "dangling.pdf" not in found
    assert len(found) == 9


def test_a_folder_in_the_tree_that_cannot_be_read(tree, monkeypatch):
    real = os.scandir

    def scandir(path):
        if os.path.basename(path) == "sub":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = find_inputs(["in"], recursive=True)
    assert found.unreadable == [os.path.join("in", "sub")]
    assert "old/f.pdf" in places(found)
    with pytest.raises(InputError, match="Permission denied"):
        find_inputs(["in/sub", "in"])


def test_outputs_of_ocria_are_no_inputs(tree):
    (tree / "out").mkdir()
    (tree / "out" / "b.pdf.md").write_bytes(b"x")
    assert "out/b.pdf.md" in places(find_inputs(["in"], recursive=True))
    assert "out/b.pdf.md" not in places(find_inputs(["in"], recursive=True, output_dir="in/out"))
    assert find_inputs(["in/**/*.md", "in/b.pdf"], output_dir="in/out").inputs == [Input("in/b.pdf", "in/b.pdf")]


def test_nothing_found(tree):
    (tree / "empty").mkdir()
    with pytest.raises(InputError, match="-r"):
        find_inputs(["in/empty"])
    with pytest.raises(InputError, match="--include"):
        find_inputs(["in"], include=["nothing"])
    with pytest.raises(InputError):
        find_inputs(["in/*.nothing"])
    with pytest.raises(UsageError):
        find_inputs([])


@pytest.mark.parametrize("name", [b"new\nline.pdf", b"quo'\"te.pdf", b"\xff\xfe.pdf", b"\x1b[31m.pdf", b"-r.pdf"])
def test_weird_names(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name)
    try:
        with open(path, "wb") as file:
            file.write(b"x")
    except OSError:
        pytest.skip("this file system has no such names")
    (item,) = find_inputs([str(tmp_path)]).inputs
    assert os.fsencode(item.path) == path
    assert os.fsencode(item.place) == name


def test_lists_of_files(tmp_path, monkeypatch):
    (tmp_path / "list").write_bytes(b"a.pdf\r\n\n b \n\xff.pdf")
    assert names_from(str(tmp_path / "list")) == ["a.pdf", " b ", "\udcff.pdf"]
    (tmp_path / "nul").write_bytes(b"a\nb.pdf\0c.pdf\0")
    assert names_from(str(tmp_path / "nul"), nul=True) == ["a\nb.pdf", "c.pdf"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x.pdf\n")))
    assert names_from("-") == ["x.pdf"]
    with pytest.raises(UsageError):
        names_from(str(tmp_path / "none"))


def test_standard_input_is_a_document(monkeypatch):
    found = find_inputs(["-"])
    assert found.inputs == [Input("-", "stdin")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"content")))
    assert open_input(found.inputs[0]).read() == b"content"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError):
        open_input(found.inputs[0])


def test_natural_order():
    names = ["b", "a/2", "a/10", "A/3", "a", "page 2.pdf", "page.pdf", "page 10.pdf", "٣", "x" * 300 + "9" * 100]
    ordered = sorted(names, key=natural_key)
    assert ordered.index("a/2") < ordered.index("A/3") < ordered.index("a/10")
    assert ordered.index("page.pdf") < ordered.index("page 2.pdf") < ordered.index("page 10.pdf")


def test_every_suffix_that_images_and_texts_are_told_by_is_taken():
    from ocria.document import kind

    assert set(kind.IMAGE_NAMES) | set(kind._BY_NAME) <= SUFFIXES
