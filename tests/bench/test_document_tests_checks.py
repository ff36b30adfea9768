"""Checks of document tests: each passes right outputs and fails wrong ones, on fresh random text."""

import html
import random
import string

import pytest

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

from document_tests.checks import (
    Absent,
    Baseline,
    Blank,
    Characters,
    NoLoop,
    NotEmpty,
    Order,
    Present,
    Table,
    first_and_last,
)
from document_tests.grids import grids
from document_tests.plain import searchable
from rapidfuzz.distance import Levenshtein


@pytest.fixture
def rng():
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def word(rng, size=None):
    return "".join(rng.choices(string.ascii_lowercase, k=size or rng.randint(5, 11)))


def text(rng, words):
    return " ".join(word(rng) for _ in range(words))


def edited(rng, sentence, edits):
    """Letters replaced by digits, in places apart: exactly so many edits."""
    letters = [place for place, char in enumerate(sentence) if char != " "]
    chars = list(sentence)
    for place in rng.sample(letters, edits):
        chars[place] = rng.choice(string.digits)
    return "".join(chars)


def marked(rng, words):
    """The words with Markdown and HTML that a reader may add."""
    marks = ["{}", "**{}**", "*{}*", "<b>{}</b>", "__{}__", "[{}](http://x.org/y)", "{}\n", "<u>{}</u>"]
    return " ".join(rng.choice(marks).format(one) for one in words.split())


def test_markup_costs_nothing(rng):
    for _ in range(50):
        words = text(rng, 8)
        assert searchable(f"# {marked(rng, words)}") == words
    assert searchable(r"5 \* 3 \_a\_ &amp; “b” – c ﬁ") == '5 * 3 _a_ & "b" - c fi'
    assert searchable("snake_case_name 2*3*4") == "snake_case_name 2*3*4"
    assert searchable("| a | b |\n|---|---|\n| c | d |") == "| a | b | |---|---| | c | d |"


@pytest.mark.parametrize("edits", [0, 1, 4])
def test_present_and_absent_count_edits(rng, edits):
    for _ in range(20):
        needle, around = text(rng, 10), (text(rng, 30), text(rng, 30))
        inside = f"{around[0]} {edited(rng, needle, edits)}\n\n{around[1]}"
        present, absent = Present(needle, max_diffs=edits), Absent(needle, max_diffs=edits)
        assert present.failure(inside) is None
        assert absent.failure(inside)
        worse = f"{around[0]} {edited(rng, needle, edits + 1)} {around[1]}"
        assert present.failure(worse)
        assert absent.failure(worse) is None
        for empty in ("", " ", "\n", needle[: len(needle) // 2]):
            assert present.failure(empty)
            assert absent.failure(empty) is None


def test_case_counts_unless_told_otherwise(rng):
    needle = text(rng, 4)
    assert Present(needle).failure(needle.upper())
    assert Present(needle, case_sensitive=False).failure(needle.upper()) is None
    assert Absent(needle, case_sensitive=False).failure(f"x {needle.title()} y")


def test_first_and_last_characters(rng):
    needle, filling = text(rng, 3), text(rng, 60)
    head, tail = f"{needle} {filling}", f"{filling} {needle}"
    window = len(needle) + 5
    assert Present(needle, first_n=window).failure(head) is None
    assert Present(needle, first_n=window).failure(tail)
    assert Present(needle, last_n=window).failure(tail) is None
    assert Present(needle, last_n=window).failure(head)
    middle = f"{filling} {needle} {filling}"
    assert Absent(needle, first_n=window, last_n=window).failure(middle) is None
    assert Absent(needle, first_n=window, last_n=window).failure(tail)


def slow_places(needle, haystack, edits):
    """Starts of all windows of the needle's length, give or take the edits, within so many edits."""
    lengths = range(max(1, len(needle) - edits), len(needle) + edits + 1)
    return [
        start
        for start in range(len(haystack))
        if any(Levenshtein.distance(needle, haystack[start : start + length]) <= edits for length in lengths)
    ]


@pytest.mark.parametrize("edits", [0, 2])
def test_places_are_those_of_a_slow_search(rng, edits):
    for _ in range(15):
        needle = text(rng, 4)
        pieces = [edited(rng, needle, rng.randint(0, edits)) if rng.random() < 0.4 else text(rng, 4) for _ in range(8)]
        haystack = " ".join(pieces)
        found, places = first_and_last(needle, haystack, edits), slow_places(needle, haystack, edits)
        assert (found is None) == (not places)
        if found:
            # A window may begin a few characters off and still be within the edits.
            assert abs(found[0] - places[0]) <= 2 * edits
            assert abs(found[1] - places[-1]) <= 2 * edits


@pytest.mark.parametrize("edits", [0, 3])
def test_order(rng, edits):
    for _ in range(20):
        a, b, c = text(rng, 6), text(rng, 6), text(rng, 6)
        check = Order(a, b, max_diffs=edits)
        assert check.failure(f"{edited(rng, a, edits)} {c} {edited(rng, b, edits)}") is None
        assert "wrong order" in check.failure(f"{b} {c} {a}")
        assert "missing" in check.failure(f"{a} {c}")
        assert "missing" in check.failure(f"{c} {b}")
        assert check.failure(f"{b} {a} {c} {b}") is None  # some place of each is enough
    assert Order("aa aa", "bb bb").failure("bb bb " + "aa aa " * 2000)


def as_html(rows, *, head=True):
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if head and number == 0 else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return f"<table>\n{''.join(lines)}\n</table>"


def as_pipes(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def as_loose_html(rows):
    """No end tags of cells and rows, which HTML allows."""
    return "<TABLE border=1>" + "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows) + "</TABLE>"


@pytest.mark.parametrize("form", [as_html, as_pipes, as_loose_html])
def test_neighbours_in_a_table(rng, form):
    height, width = rng.randint(4, 7), rng.randint(3, 6)
    rows = [[word(rng, 9) for _ in range(width)] for _ in range(height)]
    page = f"Some text.\n\n{form(rows)}\n\nMore text."
    r, c = rng.randint(1, height - 2), rng.randint(1, width - 2)
    right = {"up": rows[r - 1][c], "down": rows[r + 1][c], "left": rows[r][c - 1], "right": rows[r][c + 1]}
    right |= {"top_heading": rows[0][c], "left_heading": rows[r][0]}
    assert Table(rows[r][c], **right).failure(page) is None
    for side in right:
        wrong = Table(rows[r][c], **{side: rows[r][c]}).failure(page)
        assert wrong
        assert side in wrong
    assert "no cell" in Table(word(rng, 12)).failure(page)
    flat = "\n".join(" ".join(row) for row in rows)
    assert Table(rows[r][c]).failure(flat) == "no table"
    torn = [[*row[:c], "", *row[c:]] for row in rows]
    assert Table(rows[r][c], left=rows[r][c - 1]).failure(form(torn))


def test_pipe_tables_can_be_left_out(rng):
    rows = [[word(rng), word(rng)] for _ in range(3)]
    assert Table(rows[1][0], ignore_markdown_tables=True).failure(as_pipes(rows)) == "no table"
    assert Table(rows[1][0], ignore_markdown_tables=True).failure(as_html(rows)) is None


def test_edits_in_a_cell(rng):
    rows = [[word(rng, 10) for _ in range(3)] for _ in range(3)]
    read = [[edited(rng, cell, 1) for cell in row] for row in rows]
    assert Table(rows[1][1], up=rows[0][1], max_diffs=1).failure(as_html(read)) is None
    assert Table(rows[1][1], up=rows[0][1]).failure(as_html(read))


def test_cells_that_span(rng):
    a, b, c, d, e, f, g = (word(rng, 9) for _ in range(7))
    page = (
        f"<table><tr><th rowspan=2>{a}</th><th colspan='2'>{b}</th></tr><tr><th>{c}</th><th>{d}</th></tr>"
        f"<tr><td>{e}</td><td>{f}</td><td>{g}</td></tr></table>"
    )
    assert Table(f, top_heading=b, up=c, left=e, right=g).failure(page) is None
    assert Table(g, top_heading=b, up=d).failure(page) is None
    assert Table(g, top_heading=d).failure(page) is None
    assert Table(d, up=b).failure(page) is None
    assert Table(c, left=a).failure(page) is None
    assert Table(e, up=a).failure(page) is None
    assert Table(g, up=c).failure(page)
    assert Table(f, top_heading=a).failure(page)


def test_tables_in_tables_and_senseless_spans(rng):
    inner, outer = word(rng, 9), word(rng, 8)
    found = grids(f"<table><tr><td colspan=0>{outer}<table><tr><td rowspan=x>{inner}</td></tr></table></td></tr>")
    assert [grid.texts for grid in found] == [[inner], [outer]]


def test_loops(rng):
    for _ in range(10):
        unit = text(rng, rng.randint(1, 8)) + " "
        page = text(rng, 50)
        often = max(11, 100 // len(unit) + 1) + rng.randint(1, 20)
        assert NoLoop().failure(f"{page} {unit * often}{page}")
        assert NoLoop().failure(page) is None
        assert NoLoop().failure(f"{page} {unit * 5}{page}") is None
    assert NoLoop().failure("aaaa" * 40)
    assert NoLoop().failure("Contents " + ". " * 300 + "7 " + "-" * 400) is None
    assert NoLoop().failure("| 0.00 | 0.00 |\n" * 5) is None
    assert NoLoop().failure("") is None


def test_blank_and_empty(rng):
    for empty in ("", "\n\f\n", "---", "| | |", "![](figure.png)", "<table><tr><td></td></tr></table>"):
        assert Blank().failure(empty) is None
        assert NotEmpty().failure(empty) == "empty"
    page = word(rng, 7)
    assert "7 letters" in Blank().failure(page)
    assert Blank(7).failure(page) is None
    assert NotEmpty().failure(page) is None


def test_odd_characters(rng):
    page = text(rng, 5)
    assert Characters().failure(f"{page} Ætherglow é § € “x” – Ω α → • ½ \t\n\f") is None
    for odd in ("\u4e2d", "\u3042", "\u30ab", "\ufffd", "\x00", "\U0001f600", "\ue001"):
        assert f"{ord(odd):04X}" in Characters().failure(f"{page}{odd}{page}")


def test_baseline_of_olmocr_bench(rng):
    page = text(rng, 30)
    assert Baseline().failure(page) is None
    assert Baseline().failure(" ") == "empty"
    assert Baseline().failure(page + " ab" * 40)
    assert Baseline(max_repeats=60).failure(page + " ab" * 40) is None
    assert Baseline().failure(page + " ab" * 40 + " " + page) is None  # the end alone counts
    assert Baseline().failure(page + "中")
    assert Baseline(check_disallowed_characters=False).failure(page + "中") is None
    assert Baseline(max_length=0).failure("") is None
    assert Baseline(max_length=3).failure(page)
