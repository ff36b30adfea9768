"""Markdown with HTML tables, and plain text."""

import pytest

from ocria.document.dialects import parse_answer

SIZE = (600.0, 800.0)


def read(text, dialect="markdown"):
    answer = parse_answer(text, dialect, SIZE)
    assert answer.fault is None
    assert all(block.box == (0.0, 0.0, *SIZE) for block in answer.blocks)
    return answer.blocks


def kinds(text):
    return [(block.type, block.text) for block in read(text)]


def test_blocks_have_types_levels_and_the_markdown_that_was_written():
    blocks = read("# The *Ledger*\n\nOne line\nand **another**.\n\n### Of 1897 ###\nText under it\n\n***\n")
    assert [(b.type, b.level, b.text, b.markdown) for b in blocks] == [
        ("heading", 1, "The Ledger", "# The *Ledger*"),
        ("text", None, "One line and another.", "One line\nand **another**."),
        ("heading", 3, "Of 1897", "### Of 1897 ###"),
        ("text", None, "Text under it", "Text under it"),
    ]
    assert [block.order for block in blocks] == [0, 1, 2, 3]


def test_a_rule_under_text_makes_no_heading_and_indented_text_no_code():
    assert kinds("Total\n---\n\n    indented words") == [("text", "Total"), ("text", "indented words")]


def test_list_items_keep_marks_and_depth():
    blocks = read("- May\n  - 310 *tons*\n    of coal\n- June\n\n7. Kiel\n8. Ystad\n\n   more of it")
    assert [(b.type, b.text, b.markdown) for b in blocks] == [
        ("list-item", "May", "- May"),
        ("list-item", "310 tons of coal", "  - 310 *tons*\n    of coal"),
        ("list-item", "June", "- June"),
        ("list-item", "Kiel", "7. Kiel"),
        ("list-item", "Ystad", "8. Ystad"),
        ("text", "more of it", "   more of it"),
    ]


def test_an_html_table_has_cells_with_spans_and_headers():
    table = (
        "<table border=1><thead><tr><th rowspan=2>Month</th><th colspan='2'>Cargo &amp; crew</th></tr>\n"
        "<tr><th>Tons</th><th>Men</th></tr></thead>\n\n<tr><td>May</td><td>a | b<br>c</td><td>$x_1$</td></tr></table>"
    )
    before, block, after = read(f"Before\n{table} after")
    assert (before.text, after.text) == ("Before", "after")
    assert block.type == "table"
    assert [(c.row, c.column, c.row_span, c.column_span, c.text, c.header) for c in block.cells] == [
        (0, 0, 2, 1, "Month", True),
        (0, 1, 1, 2, "Cargo & crew", True),
        (1, 1, 1, 1, "Tons", True),
        (1, 2, 1, 1, "Men", True),
        (2, 0, 1, 1, "May", False),
        (2, 1, 1, 1, "a | b\nc", False),
        (2, 2, 1, 1, "$x_1$", False),
    ]
    assert block.text == "Month\tCargo & crew\n\tTons\tMen\nMay\ta | b c\t$x_1$"
    assert block.markdown == (
        '<table>\n<tr><th rowspan="2">Month</th><th colspan="2">Cargo &amp; crew</th></tr>\n'
        "<tr><th>Tons</th><th>Men</th></tr>\n<tr><td>May</td><td>a | b<br>c</td><td>$x_1$</td></tr>\n</table>"
    )
    # What was written is read as the same table again.
    assert read(block.markdown)[0].cells == block.cells


def test_a_table_without_ends_of_cells_and_with_a_table_in_it():
    block, other = read("<table><tr><th>A<td>B<tr><td>C<td><table><tr><td>in</td></tr></table></table>\n\nmore")
    assert [(c.row, c.column, c.text) for c in block.cells] == [(0, 0, "A"), (0, 1, "B"), (1, 0, "C"), (1, 1, "in")]
    assert other.text == "more"


def test_words_of_a_table_that_stand_in_no_cell_are_kept():
    caption, stray, table = read("<table><caption>Table 3</caption><tr>stray<td>x</td></tr></table>")
    assert (caption.type, caption.text) == ("caption", "Table 3")
    assert (stray.type, stray.text) == ("text", "stray")
    assert (table.type, table.text) == ("table", "x")


def test_a_pipe_table_has_cells_too():
    (block,) = read("| a | b |\n|---|:-:|\n| 1 \\| 2 | **3** |\n| 4 | |")
    assert [(c.row, c.column, c.text, c.header) for c in block.cells] == [
        (0, 0, "a", True), (0, 1, "b", True), (1, 0, "1 | 2", False), (1, 1, "3", False), (2, 0, "4", False),
        (2, 1, "", False),
    ]  # fmt: skip
    assert block.text == "a\tb\n1 | 2\t3\n4\t"


@pytest.mark.parametrize(
    "formula", ["$$\na\n=\nb\n- c\n\n# d\n$$", "\\[ a * b * c \\]", "$$x_1 < y_2$$", "\\[\na_b\n\\]"]
)
def test_formulas_are_verbatim(formula):
    blocks = read(f"So\n{formula}\nfollows")
    assert [(b.type, b.text, b.markdown) for b in blocks] == [
        ("text", "So", "So"),
        ("formula", formula, formula),
        ("text", "follows", "follows"),
    ]


def test_marks_in_formulas_are_none_and_prices_are_no_formulas():
    assert kinds("If $a_1 * b_2 * c_3$ then\n\nFrom $5 to *$10* here") == [
        ("text", "If $a_1 * b_2 * c_3$ then"),
        ("text", "From $5 to $10 here"),
    ]


def test_code_is_verbatim():
    code = "```python\nx = '<table>'\n\n$$\n# no heading\n```"
    (block,) = read(code)
    assert (block.type, block.text, block.markdown) == ("code", "x = '<table>'\n\n$$\n# no heading", code)
    assert kinds("Use `<table>` and `<p>` here") == [("text", "Use <table> and <p> here")]


def test_pictures_captions_notes_and_running_heads():
    answer = (
        "<header>Ships</header>\n\n![A quay](quay.png)\n\n<figure><img src='b.png' alt='Ship'><figcaption>Figure 2"
        "</figcaption></figure>\n\n> quoted\n> words\n\n[^1]: See *there*.\n\n<page_number>12</page_number>"
    )
    assert kinds(answer) == [
        ("header", "Ships"), ("picture", "A quay"), ("picture", "Ship"), ("caption", "Figure 2"),
        ("text", "quoted words"), ("footnote", "See there."), ("footer", "12"),
    ]  # fmt: skip


def test_wrappers_in_markdown_hold_markdown():
    answer = '<div align="center">\n\n# Ships\n\n<p>of *1897*</p>and `<p>`\n</div>\n'
    answer += "<center><table><td>x</table></center>"
    assert kinds(answer) == [("heading", "Ships"), ("text", "of 1897"), ("text", "and <p>"), ("table", "x")]


def test_what_looks_like_a_tag_is_text():
    text = "if x <y and z< 3, mail <a@b.example> or <unknown>this</unknown> & AT&T"
    assert read(text)[0].markdown == text
    assert "x <y and z< 3" in read(text)[0].text
    assert "this" in read(text)[0].text


def test_escapes_entities_and_odd_characters():
    assert kinds("1\\. 5 \\* 3 &lt;b&gt; ﬁne\u00ad\u200bly\x07 مرحبا 𝔘 e\u0301\r\nnext") == [
        ("text", "1. 5 * 3 <b> finely مرحبا 𝔘 e\u0301 next")
    ]


@pytest.mark.parametrize(
    "wrapped",
    [
        "```markdown\n# A\n\n```py\nx\n```\n\nb\n```",
        "Here is the transcription of the page:\n\n```md\n# A\n\n```py\nx\n```\n\nb\n```\n",
        "<think>\nA page. ```md\n</think>\n\n# A\n\n```py\nx\n```\n\nb",
        "I see a page.</think># A\n\n```py\nx\n```\n\nb",
        "Sure! Below is the extracted text in Markdown:\n# A\n\n```py\nx\n```\n\nb",
    ],
)
def test_wrapping_is_taken_off(wrapped):
    assert kinds(wrapped) == [("heading", "A"), ("code", "x"), ("text", "b")]


@pytest.mark.parametrize("text", ["Here are the ships of May:\n\n- one", "```\nonly code\n```", "Below the line:\n\nx"])
def test_what_a_page_may_say_is_no_wrapping(text):
    assert "\n\n".join(block.markdown for block in read(text)) == text


def test_plain_text_is_one_block():
    (block,) = read("```text\n# no heading\n<b>\n```", "text")
    assert (block.type, block.text, block.markdown) == ("page", "# no heading\n<b>", "# no heading\n<b>")
    assert read(" \n ", "text") == []


def test_an_unknown_dialect_is_an_error():
    with pytest.raises(ValueError, match="doctags"):
        parse_answer("", "doctags", SIZE)
