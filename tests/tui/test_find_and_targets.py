"""Words in what was read, the files of an export, the theme that is kept, editors."""

import random

import pytest
from ocria_tui.actions.output import find_editor
from ocria_tui.kept import keep, kept_theme
from ocria_tui.search import Search, find, markdown_of
from ocria_tui.state import DocumentState, PageState
from ocria_tui.targets import targets

from ocria.errors import MissingDependencyError, OutputError, UsageError


def document(*texts):
    pages = {number: PageState(number, markdown=text) for number, text in enumerate(texts, 1)}
    return DocumentState("a.pdf", pages=pages)


def test_hits_are_where_the_words_stand():
    """Against a plain search of text without line breaks."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    texts = ["".join(draw.choices("abAB é", k=draw.randrange(0, 80))) for _ in range(5)]
    for words in ("a", "ab", "É", "bb", "ab b"):
        hits = find(document(*texts), words)
        expected = []
        for number, text in enumerate(texts, 1):
            start = 0
            while words.split() and (start := _index(text, words, start)) >= 0:
                end = start + len(words) + _extra(text, words, start)
                expected.append((number, start, end))
                start = end
        assert list(hits) == expected, (words, texts)


def _index(text, words, start):
    from itertools import count

    for place in count(start):
        if place > len(text):
            return -1
        if _extra(text, words, place) is not None:
            return place
    return -1


def _extra(text, words, place):
    """How many spaces more than in the words the text has from a place on where they stand, else None."""
    begun = place
    for number, part in enumerate(words.split()):
        if number:
            gap = len(text[place:]) - len(text[place:].lstrip())
            if not gap:
                return None
            place += gap
        if text[place : place + len(part)].lower() != part.lower():
            return None
        place += len(part)
    return place - begun - len(words)


def test_words_over_a_line_break_and_in_what_is_not_done_yet():
    made = document("# Of the\nLedger", None)
    made.pages[2].units.update({3: "the ledger", 1: "and of"})
    assert [(hit.page, hit.start, hit.end) for hit in find(made, "the  ledger")] == [(1, 5, 15), (2, 7, 17)]
    assert find(made, " ") == find(made, "") == ()
    assert find(made, "l.dger") == (), "words are no pattern"


def test_steps_go_around_and_see_what_came_meanwhile():
    made = document("one", "one one", "none here")
    found = Search.of(made, "one", page=2)
    assert (found.index, len(found.hits)) == (1, 4)
    places = []
    for _ in range(5):
        found = found.step(made, 1)
        places.append(found.index)
    assert places == [2, 3, 0, 1, 2]
    for expected in (1, 0, 3):
        found = found.step(made, -1)
        assert found.index == expected
    made.pages[1].markdown = "one one one"
    found = Search.of(made, "one", page=2)
    assert found.step(made, -1).hit == (1, 8, 11)
    assert Search.of(made, "nothing").hit is None
    assert Search.of(made, "nothing").step(made, 1).hit is None
    made.pages[1].markdown = "else"
    assert found.step(made, -1).hit.page == 3


def test_markdown_of_all_pages():
    assert markdown_of(document("# A\n", "", None, "b\n\nc\n")) == "# A\n\nb\n\nc\n"
    assert markdown_of(document()) == markdown_of(document("", None)) == ""


def test_targets(tmp_path):
    assert targets("x/a.pdf", ("md", "text"), str(tmp_path)) == [tmp_path / "a.pdf.md", tmp_path / "a.pdf.txt"]
    assert targets("a.pdf", ("json",), str(tmp_path / "new" / "b")) == [tmp_path / "new" / "b" / "a.pdf.json"]
    assert targets("a.pdf", ("md",), str(tmp_path / "b.md")) == [tmp_path / "b.md"]
    assert targets("a.pdf", ("md",), str(tmp_path / "b.markdown")) == [tmp_path / "b.markdown"]
    (tmp_path / "c.md").mkdir()
    assert targets("a.pdf", ("md",), str(tmp_path / "c.md")) == [tmp_path / "c.md" / "a.pdf.md"]


def test_targets_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "a.txt").touch()
    for formats, target, error in (
        (("md", "json"), tmp_path / "b.md", UsageError),
        (("md",), tmp_path / "b.json", UsageError),
        (("md",), tmp_path / "file", OutputError),
        (("md",), tmp_path / "file" / "b.md", OutputError),
        (("text",), tmp_path / "a.txt", OutputError),
    ):
        with pytest.raises(error, match=str(target.parent)):
            targets(str(tmp_path / "a.txt"), formats, str(target))


def test_a_theme_is_kept(tmp_path):
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "new")}
    assert kept_theme(environment) is None
    assert keep("nord", environment) == tmp_path / "new" / "ocria" / "theme"
    assert kept_theme(environment) == "nord"
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be kept"):
        keep("nord", {"XDG_CONFIG_HOME": str(tmp_path / "file")})


def test_editors(tmp_path):
    assert find_editor({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert find_editor({"VISUAL": " ", "EDITOR": "'my editor' -x"}) == ["my editor", "-x"]
    (tmp_path / "nano").touch(mode=0o755)
    (tmp_path / "vi").touch(mode=0o755)
    assert find_editor({"PATH": str(tmp_path)}) == ["nano"]
    with pytest.raises(MissingDependencyError, match="EDITOR"):
        find_editor({"PATH": str(tmp_path / "none")})
    with pytest.raises(MissingDependencyError, match="VISUAL is no command"):
        find_editor({"VISUAL": "a 'b"})
