"""What is printed survives a Markdown parser, and what needs no escape gets none."""

import random

import pytest
from markdown_it import MarkdownIt

from ocria.document.dialects.markdown import formula_rule
from ocria.document.escape import code_block, escape_label, escape_markdown, heading, paragraph
from ocria.document.result import Cell
from ocria.document.structure.list_items import item_markdown
from ocria.document.table import cells_markdown

NASTY = [
    "*", "**", "_", "__", "***", "#", "# ", "## ", "1. ", "1)", "23) ", "4.", "+ ", "- ", "-", ">", "> ", "---", "===",
    "= ", "~", "~~", "~~~", "`", "``", "```", "[x](y)", "![", "![a](b)", "[", "]", "](", "[a]: b", "[^1]:", "[^1]",
    "- [ ] ", "[ ] ", "[x] ", "<tag>", "</b>", "<b>", "<!-- c -->", "<?p", "<div>", "<http://x.y>", "http://a_b_c",
    "&amp;", "&#35;", "&", "\\", "\\\\", "\\(x\\)", "\\[x\\]", "|", "|---|", "$5 and $6", "$", "$$", "  ", "    ", "\t",
    "word", "Two words", "3 * 4", "snake_case", "a", "1", ".", "(", ")", "!", ":", "é", "—", "“", "文", "x^2", "* * *",
    "_ _ _", "--", "@a.b", "{", "}",
]  # fmt: skip


def parser():
    """CommonMark with tables, strikethrough and formulas between dollar signs."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.inline.ruler.before("escape", "formula", formula_rule)
    return made


def nasty(rng):
    return "".join(rng.choice(NASTY) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 9)))


def folded(text):
    return " ".join(text.split())


def said(tokens):
    """The text of some tokens; whatever is markup shows as such."""
    parts = []
    for token in tokens:
        if token.type == "inline":
            parts.append(said(token.children))
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "text":
            parts.append(token.content)
        elif token.type not in ("paragraph_open", "paragraph_close"):
            parts.append(
                f"<{token.type}>" if token.nesting == 0 or token.type.endswith(("em_open", "link_open")) else ""
            )
    return "".join(parts)


@pytest.fixture
def rng(request):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


def test_paragraphs_survive(rng):
    read = parser().parse
    for _ in range(1500):
        text = "\n".join(nasty(rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        if not text.strip():
            continue
        tokens = read(paragraph(text))
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], repr(text)
        assert said(tokens) == folded(text), repr(text)


def test_headings_survive(rng):
    read = parser().parse
    for _ in range(1000):
        text = folded(nasty(rng))
        level = rng.randint(1, 6)
        tokens = read(heading(escape_markdown(text), level))
        assert [token.type for token in tokens] == ["heading_open", "inline", "heading_close"], repr(text)
        assert tokens[0].tag == f"h{level}"
        assert said(tokens[1:2]) == text, repr(text)


def test_list_items_survive(rng):
    read = parser().parse
    for _ in range(1000):
        text = folded(nasty(rng))
        mark = rng.choice(["-", "7.", "12)"])
        if not text:
            continue
        tokens = read(item_markdown(mark, "", escape_markdown(text)))
        assert [token.type for token in tokens][1:5] == [
            "list_item_open",
            "paragraph_open",
            "inline",
            "paragraph_close",
        ]
        assert len(tokens) == 7, repr(text)
        assert said(tokens[3:4]) == text, repr(text)


def test_paragraphs_keep_to_themselves_side_by_side(rng):
    read = parser().parse
    for _ in range(300):
        texts = [text for text in (folded(nasty(rng)) for _ in range(4)) if text]
        tokens = read("\n\n".join(map(paragraph, texts)))
        assert [said([token]) for token in tokens if token.type == "inline"] == texts


def test_cells_of_pipe_tables_survive(rng):
    read = parser().parse
    for _ in range(300):
        rows = [[folded(nasty(rng)) for _ in range(3)] for _ in range(rng.randint(1, 4))]
        rows[0][0] = rows[0][0] or "x"
        cells = [Cell(r, c, 1, 1, text, r == 0) for r, row in enumerate(rows) for c, text in enumerate(row)]
        tokens = read(cells_markdown(cells, "md"))
        assert tokens[0].type == "table_open", rows
        assert [said([token]) for token in tokens if token.type == "inline"] == [text for row in rows for text in row]


def test_labels_survive(rng):
    read = parser().parseInline
    for _ in range(500):
        text = folded(nasty(rng))
        if not text:
            continue
        (image,) = read(f"![{escape_label(text)}](a.png)")[0].children
        assert image.type == "image", repr(text)
        assert said(image.children) == text, repr(text)


def test_code_survives(rng):
    for _ in range(300):
        lines = [nasty(rng).rstrip() for _ in range(rng.randint(1, 5))]
        tokens = parser().parse(code_block(lines))
        assert [token.type for token in tokens] == ["fence"]
        # Tabs stand for themselves in code.
        assert tokens[0].content == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("*star* and `tick` and `tock`", r"\*star\* and \`tick\` and \`tock\`"),
        ("<b>x</b> but 3 < 5", r"\<b>x\</b> but 3 < 5"),
        ("a|b", "a|b"),
        ("snake_case and _this_", r"snake_case and \_this\_"),
        ("total $1,234.56.", "total $1,234.56."),
        ("$5 to $10", r"\$5 to \$10"),
        ("3 * 4 is 12, 5* is a hotel", "3 * 4 is 12, 5* is a hotel"),
        ("AT&T &c. &copy;", r"AT&T &c. \&copy;"),
        ("C:\\temp and \\* and \\", "C:\\temp and \\\\* and \\\\"),
        ("see [1] and [2](a)", r"see [1] and [2\](a)"),
        ("~5 to ~6", "~5 to ~6"),
        ("en.wikipedia.org/wiki/Edgar,_King_of_England", "en.wikipedia.org/wiki/Edgar,_King_of_England"),
    ],
)
def test_only_what_must_be_is_escaped(text, escaped):
    assert escape_markdown(text) == escaped


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("1. First", r"1\. First"),
        ("1.5 litres", "1.5 litres"),
        ("# 5", r"\# 5"),
        ("#5", "#5"),
        ("- dash", r"\- dash"),
        ("-5 degrees", "-5 degrees"),
        ("> more", r"\> more"),
        ("a\n===", "a\\\n\\==="),
        ("* a note", r"\* a note"),
        ("  indented", "indented"),
        ("[1]: a place", r"[1\]: a place"),
        ("line one\nline two", "line one\\\nline two"),
    ],
)
def test_starts_of_lines(text, markdown):
    assert paragraph(text) == markdown


def test_a_heading_is_not_a_list():
    assert heading("1. Scope", 2) == "## 1. Scope"
    assert heading("C #", 1) == r"# C \#"


def test_a_part_of_a_paragraph_trusts_nothing():
    assert escape_markdown("5* and", whole=False) == r"5\* and"
