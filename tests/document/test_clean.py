import pytest

from ocria.document.clean import clean_text, escape_markdown, join_lines
from ocria.document.table import table_markdown, table_text


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a broken exam-", "ple of it"], "a broken example of it"),
        (["the well-", "Known Name"], "the well-Known Name"),
        (["state-of-the-", "art"], "state-of-the-art"),
        (["pages 12-", "14"], "pages 12-14"),
        (["one ", "  two", "", "three"], "one two three"),
        (["a dash -", "then more"], "a dash - then more"),
        (["hy\u2010", "phen"], "hyphen"),
        ([], ""),
    ],
)
def test_lines_are_joined(lines, text):
    assert join_lines(lines) == text


def test_ligatures_and_soft_hyphens():
    assert clean_text("eﬃcient ﬁling ﬂoor") == "efficient filing floor"
    assert clean_text("sen\xadtence hy\xad") == "sentence hy-"
    assert join_lines([clean_text("soft hy\xad"), "phens"]) == "soft hyphens"
    assert clean_text("a\x02b\ufffec\x00") == "abc"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("*star* and `tick`", r"\*star\* and \`tick\`"),
        ("<b>x</b> but 3 < 5", r"\<b>x\</b> but 3 < 5"),
        ("a|b", r"a\|b"),
        ("snake_case and _this_", r"snake_case and \_this\_"),
        ("total $1,234.56.", "total $1,234.56."),
        ("$5 to $10", r"\$5 to \$10"),
    ],
)
def test_markdown_is_escaped(text, escaped):
    assert escape_markdown(text) == escaped


def test_a_table_keeps_its_cells():
    cells = [["a|b", None, "$5 to $10"], ["x\ny", "2", "3"], ["short"]]
    assert table_markdown(cells).splitlines() == [
        r"| a\|b |  | \$5 to \$10 |",
        "| --- | --- | --- |",
        "| x y | 2 | 3 |",
        "| short |  |  |",
    ]
    assert table_text(cells) == "a|b\t\t$5 to $10\nx y\t2\t3\nshort\t\t"
