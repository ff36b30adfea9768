"""Answers that break off, and answers that are damaged: never an error, and nothing lost that came before."""

import random
import re

import pytest

from ocria.document.dialects import parse_answer
from ocria.document.result import BLOCK_TYPES

SIZE = (600.0, 800.0)
MARKDOWN = """# Ships of 1897

The *harbour* master & his **clerk**: $a_1 < b_2$.

- May
  - 310 tons
- June

<table><thead><tr><th rowspan="2">Month</th><th colspan="2">Cargo</th></tr><tr><th>Tons</th><th>Crew</th></tr></thead>
<tbody><tr><td>July</td><td>402</td><td>Ödön 文</td></tr></tbody></table>

$$
E = mc^2
$$

```python
print("quay")
```

| port | flag |
|------|------|
| Kiel | red |

Last words.
"""
HTML = """<div data-bbox="10 20 900 80" data-label="Page-Header">Ships of 1897</div>
<div data-bbox="10 90 900 120" data-label="Section-Header"><h2>Cargo</h2></div>
<div data-bbox="10 130 900 300" data-label="Text"><p>The <i>harbour</i> master &amp;
his <b>clerk</b>: <math>a < b</math>.</p></div>
<div data-bbox="10 310 900 500" data-label="Table"><table><tr><th rowspan="2">Month</th><th>Tons</th></tr>
<tr><td>July</td><td>402</td></tr></table></div>
<div data-bbox="10 510 900 600" data-label="List-Group"><ul>
<li>Kiel<ul><li>red</li></ul></li><li>Ödön 文</li></ul></div>
<div data-bbox="10 610 900 650" data-label="Image"><img alt="A quay"/></div>
<div data-bbox="10 660 900 700" data-label="Page-Footer">Last words</div>"""
JSON = r"""```json
[{"bbox": [10, 20, 900, 80], "category": "header", "text": "Ships of 1897"},
{"bbox": [10, 90, 900, 120], "category": "title", "text": "## Cargo"},
{"bbox": [10, 130, 900, 300], "category": "text", "text": "The \"master\" and clerk\n\n- Kiel\n- \u00d6d\u00f6n"},
{"bbox": [10, 310, 900, 500], "category": "table", "text": "<table><tr><td>July</td><td>402</td></tr></table>"},
{"bbox": [10, 510, 900, 600], "category": "formula", "text": "\\frac{a}{b}"},
{"bbox": [10, 660, 900, 700], "category": "footer", "text": "Last words"}]
```"""
ANSWERS = {"markdown": MARKDOWN, "html": HTML, "json": JSON, "text": MARKDOWN}


def check(answer):
    """What holds for every answer, whatever it was made of."""
    for order, block in enumerate(answer.blocks):
        assert block.type in BLOCK_TYPES
        assert block.order == order
        x0, y0, x1, y1 = block.box
        assert 0 <= x0 < x1 <= SIZE[0]
        assert 0 <= y0 < y1 <= SIZE[1]
        assert block.text or block.type == "picture"
        assert not re.search("[\x00-\x08\ud800-\udfff]", block.text + block.markdown)
        assert (block.cells is not None) == (block.type == "table")
        if block.cells:
            taken = [
                (row, column)
                for cell in block.cells
                for row in range(cell.row, cell.row + cell.row_span)
                for column in range(cell.column, cell.column + cell.column_span)
            ]
            assert all(cell.row_span > 0 and cell.column_span > 0 for cell in block.cells)
            if block.markdown.count("<table") == 1:
                assert block.markdown.count("</table>") == 1
            assert len(taken) >= len(block.cells)


def words(text):
    return re.findall(r"[^\W_]+", text)


@pytest.mark.parametrize("dialect", ["markdown", "html", "json", "text"])
def test_an_answer_cut_anywhere_keeps_what_came_before(dialect):
    whole = ANSWERS[dialect]
    assert parse_answer(whole, dialect, SIZE).fault is None
    everything = words(" ".join(block.text for block in parse_answer(whole, dialect, SIZE).blocks))
    before = 0
    for cut in range(len(whole)):
        answer = parse_answer(whole[:cut], dialect, SIZE)
        check(answer)
        told = words(" ".join(block.text for block in answer.blocks))
        # The last word may be half of one, or half of a tag or an entity that cannot be told from a word yet.
        same = next((i for i, (a, b) in enumerate(zip(told, everything, strict=False)) if a != b), len(told))
        assert same >= len(told) - 3, f"{dialect} cut at {cut}: {told[same:]} after {everything[:same][-3:]}"
        # A word that was there stays, but for those that turn out to be markup.
        assert same >= before - 3, f"{dialect} cut at {cut} lost words: {told} of {everything}"
        before = max(before, same)
    assert before >= len(everything) - 3


@pytest.mark.parametrize(
    ("dialect", "text", "what", "kept"),
    [
        ("markdown", "Words\n\n<table><tr><td>a</td><td>b", "<table>", "Words a b"),
        ("markdown", "Words\n\n<table><tr><td>a</td><td rowsp", "<table>", "Words a"),
        ("markdown", "Words\n\n```\ncode", "code block", "Words code"),
        ("markdown", "Words\n\n$$\nx + y", "formula", "Words x y"),
        ("html", '<div data-bbox="1 2 3 4" data-label="Text"><p>Words', "<div>", "Words"),
        ("html", "<p>Words</p><tab", "tag", "Words"),
        ("html", '<p>Words</p><img alt="a quay', "tag", "Words a quay"),
        ("json", '[{"bbox": [1, 2, 3, 4], "text": "Words\\u00', "string", "Words"),
        ("json", '[{"bbox": [1, 2, 3', "value", ""),
        ("json", '[{"text": "Words"}', "array", "Words"),
        ("json", "no JSON here", "no JSON", "no JSON here"),
        ("text", "<think>hm, let me see", "thoughts", ""),
        ("markdown", "```markdown\nWords", "fence", "Words"),
    ],
)
def test_what_is_open_is_told_and_closed(dialect, text, what, kept):
    answer = parse_answer(text, dialect, SIZE)
    check(answer)
    assert what in answer.fault
    assert words(" ".join(block.text for block in answer.blocks)) == kept.split()


@pytest.mark.parametrize("dialect", ["markdown", "html", "json", "text"])
def test_damaged_answers_are_read_all_the_same(dialect):
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    pieces = [
        "<",
        ">",
        "</",
        "<table>",
        "</table>",
        "<td colspan=99999>",
        '<td rowspan="0">',
        "<tr>",
        "</div>",
        "'",
        '"',
        '<div data-bbox="',
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "&#x110000;",
        "&#0;",
        "&lt;",
        "<!--",
        "-->",
        "<![if x[",
        "<?",
        "```",
        "$$",
        "$",
        "\\[",
        "|",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "# ",
        "\x00",
        "\ud800",
        "\u202e",
        "\ufeff",
        "é",
        "𝔘",
        "<math>",
        "<b>" * 90,
        "[" * 90,
        "> " * 90,
        "- " * 90,
        "<ul><li>" * 90,
        "9" * 400,
        "1e999",
        "NaN",
        "<think>",
        "null",
        "\t",
    ]
    for _ in range(150):
        text = ANSWERS[chance.choice(list(ANSWERS))] if chance.random() < 0.2 else ANSWERS[dialect]
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(text) + 1)
            if chance.random() < 0.6:
                text = text[:at] + chance.choice(pieces) + text[at:]
            else:
                text = text[:at] + text[at + chance.randint(1, 30) :]
        try:
            check(parse_answer(text, dialect, SIZE))
        except Exception as error:
            raise AssertionError(f"seed {seed}, {dialect}: {text!r}") from error


@pytest.mark.parametrize(
    ("dialect", "unit"),
    [
        ("html", "<div><p>"),
        ("html", "<ul><li>"),
        ("html", "<table><tr><td>"),
        ("html", "<math>"),
        ("html", '<a "'),
        ("json", "["),
        ("json", '{"a":'),
        ("markdown", "> "),
        ("markdown", "- "),
        ("markdown", "<table>"),
        ("markdown", "$$"),
        ("markdown", "*"),
        ("markdown", "["),
        ("markdown", "`a``b"),
        ("markdown", "<p>"),
        ("markdown", "\n$$\n"),
    ],
)
def test_endless_nesting_ends(dialect, unit):
    check(parse_answer(unit * 3000 + "words", dialect, SIZE))
