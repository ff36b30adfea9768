"""HTML layout blocks and JSON blocks with boxes, alone and through a reader."""

import json

import jsonschema
import numpy as np
import pytest
from made import REPOSITORY, FakeReader, draw_lines, scan_pdf

import ocria
from ocria.document.dialects import parse_answer
from ocria.document.reader import ReadText
from ocria.model.profiles import built_in_profiles

SIZE = (500.0, 1000.0)


def div(label, content, box="100 50 900 100"):
    return f'<div data-bbox="{box}" data-label="{label}">{content}</div>\n'


def item(category, text, box=(100, 50, 900, 100)):
    return {"bbox": list(box), "category": category, "text": text}


@pytest.mark.parametrize(
    ("label", "content", "blocks"),
    [
        ("Section-Header", "<h3>Of <i>ships</i></h3>", [("heading", "Of ships", "### Of *ships*")]),
        ("Section-Header", "Ships", [("heading", "Ships", "## Ships")]),
        (
            "Text",
            "<p>One<br>two</p><p>5*3 &lt;b&gt;</p>",
            [("text", "One\ntwo", "One\\\ntwo"), ("text", "5*3 <b>", "5\\*3 \\<b>")],
        ),
        ("Text", "no <b> bold </b>element", [("text", "no bold element", "no **bold** element")]),
        ("Text", "$3 and <b>$5</b>, <math>a<b</math>", [("text", "$3 and $5, $a<b$", "\\$3 and **\\$5**, $a<b$")]),
        ("Page-Header", "<p>Ships</p><p>12</p>", [("header", "Ships\n12", "Ships\\\n12")]),
        ("Page-Footer", "12", [("footer", "12", "12")]),
        ("Footnote", "<p><sup>1</sup> See</p>", [("footnote", "1 See", "<sup>1</sup> See")]),
        ("Caption", "<p>Figure 2</p>", [("caption", "Figure 2", "Figure 2")]),
        ("Image", '<img alt="A [quay]"/>', [("picture", "A [quay]", "![A &#91;quay&#93;]()")]),
        ("Figure", "", [("picture", "", "")]),
        ("Equation-Block", '<math display="block">x^2 &lt; y</math>', [("formula", "x^2 < y", "$$\nx^2 < y\n$$")]),
        ("Equation-Block", "<p><math>x</math></p>", [("formula", "x", "$$\nx\n$$")]),
        ("Code-Block", "<pre><code>if a:\n    b</code></pre>", [("code", "if a:\n    b", "```\nif a:\n    b\n```")]),
        ("Code-Block", "a\n  b", [("code", "a\n  b", "```\na\n  b\n```")]),
        (
            "Form",
            '<input type="checkbox" checked> yes <input type="radio"> no',
            [("text", "[x] yes [ ] no", "[x] yes [ ] no")],
        ),
        (
            "List-Group",
            '<ol start="9"><li>a</li><li><p>b</p><ul><li>c</ul></li></ol>',
            [("list-item", "a", "9. a"), ("list-item", "b", "10. b"), ("list-item", "c", "    - c")],
        ),
    ],
)  # fmt: skip
def test_labels_and_elements_of_html(label, content, blocks):
    answer = parse_answer(div(label, content), "html", SIZE)
    assert [(b.type, b.text, b.markdown) for b in answer.blocks] == blocks
    assert all(block.box == (50.0, 50.0, 450.0, 100.0) for block in answer.blocks)
    assert answer.fault is None


def test_layout_blocks_do_not_swallow_one_another():
    answer = parse_answer(
        '<div data-bbox="0 0 500 500" data-label="Table"><table><tr><td>a'
        + div("Text", "<p>b", "[0, 500, 1000, 600]")
        + div("Text", "c</p></td></table></div>", "0,600,1000,700"),
        "html",
        SIZE,
    )
    assert [(b.type, b.text, b.box) for b in answer.blocks] == [
        ("table", "a", (0.0, 0.0, 250.0, 500.0)),
        ("text", "b", (0.0, 500.0, 500.0, 600.0)),
        ("text", "c", (0.0, 600.0, 500.0, 700.0)),
    ]
    assert answer.fault is None


def test_html_without_layout_is_read_too():
    answer = parse_answer("```html\n<h1>A</h1>text<table><tr><td>x</td></tr></table>more</div>\n```", "html", SIZE)
    assert [(b.type, b.text) for b in answer.blocks] == [
        ("heading", "A"), ("text", "text"), ("table", "x"), ("text", "more"),
    ]  # fmt: skip


def test_scripts_and_handlers_do_not_come_through():
    markdown = (
        parse_answer(
            '<table onclick="x()"><tr><td style="y"><a href="javascript:z">w</a></td></tr></table>', "html", SIZE
        )
        .blocks[0]
        .markdown
    )
    assert markdown == "<table>\n<tr><td>w</td></tr>\n</table>"


@pytest.mark.parametrize(
    ("box", "told"),
    [
        ("100 50 900 100", (50.0, 50.0, 450.0, 100.0)),
        ("[100, 50, 900, 100]", (50.0, 50.0, 450.0, 100.0)),
        ("900 100 100 50", (50.0, 50.0, 450.0, 100.0)),
        ("-5 50 2000 100.5", (0.0, 50.0, 500.0, 100.5)),
        *((box, (0.0, 0.0, 500.0, 1000.0)) for box in ("", "1 2 3", "1 2 3 4 5", "a b c d", "nan 0 1 1", "0 0 inf 1")),
        *((box, (0.0, 0.0, 500.0, 1000.0)) for box in ("5 5 5 5", "2000 2000 3000 3000")),
    ],
)
def test_boxes_are_points_of_the_page_or_the_whole_page(box, told):
    assert parse_answer(div("Text", "x", box), "html", SIZE).blocks[0].box == told


def test_boxes_in_pixels_and_boxes_of_an_unknown_kind():
    text = json.dumps([item("text", "x", (0, 300, 150, 600))])
    assert parse_answer(text, "json", SIZE, (300, 600)).blocks[0].box == (0.0, 500.0, 250.0, 1000.0)
    assert parse_answer(text, "json", SIZE, None).blocks[0].box == (0.0, 0.0, 500.0, 1000.0)


@pytest.mark.parametrize(
    ("category", "text", "blocks"),
    [
        ("title", "## Of *ships*", [("heading", 2, "Of ships", "## Of *ships*")]),
        ("title", "Ships", [("heading", 1, "Ships", "# Ships")]),
        ("text", "a\n\n- b", [("text", None, "a", "a"), ("list-item", None, "b", "- b")]),
        ("table", "<table><tr><td>a</table>", [("table", None, "a", "<table>\n<tr><td>a</td></tr>\n</table>")]),
        ("table", "| a |\n|---|\n| b |", [("table", None, "a\nb", "| a |\n|---|\n| b |")]),
        ("formula", "\\frac{a}{b}", [("formula", None, "\\frac{a}{b}", "$$\n\\frac{a}{b}\n$$")]),
        ("formula", "$$x$$", [("formula", None, "$$x$$", "$$x$$")]),
        ("figure", "", [("picture", None, "", "")]),
        ("figure_caption", "Fig. *2*", [("caption", None, "Fig. 2", "Fig. *2*")]),
        ("table_footnote", "a", [("footnote", None, "a", "a")]),
        ("page_footnote", "1", [("footnote", None, "1", "1")]),
        ("header", "- 12 -", [("header", None, "- 12 -", "- 12 -")]),
        ("footer", "12", [("footer", None, "12", "12")]),
        ("seal", "x", [("text", None, "x", "x")]),
        (None, ["x", 3], [("text", None, "x 3", "x\n3")]),
    ],
)
def test_categories_of_json(category, text, blocks):
    answer = parse_answer(json.dumps([item(category, text)]), "json", SIZE)
    assert [(b.type, b.level, b.text, b.markdown) for b in answer.blocks] == blocks
    assert all(block.box == (50.0, 50.0, 450.0, 100.0) for block in answer.blocks)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('Here: [{"text": "a"}] Bye!', ["a"]),
        ('{"layout": {"blocks": [{"text": "a"}, {"text": "b"}]}}', ["a", "b"]),
        ('{"text": "a"}\n{"text": "b"}', ["a", "b"]),
        ('[{"text": "he said "no" to it"}, {"text": "b"}]', ['he said "no" to it', "b"]),
        ('[{"text": "a\nb"}]', ["a b"]),
        (r'[{"text": "$\alpha + \frac12 \times \beta \rho$"}]', [r"$\alpha + \frac12 \times \beta \rho$"]),
        (r'[{"text": "$\frac12 \times \beta \right$"}]', [r"$\frac12 \times \beta \right$"]),
        ('[{"bbox": [1, 2, 3, 4, "text": "a"}, {"text": "b"}]', ["a", "b"]),
        ('[{"text": "a", {"text": "b"}]', ["a", "b"]),
        ('[{\'x\': 1, "text": "a"}]', ["a"]),
        (r'[{"text": "\ud835\udd18 \ud800 \u0000x"}]', ["𝔘 \ufffd x"]),
        ('["a", "b"]', ["a", "b"]),
        ('[{"category": "text",, "text": "a"}, {"tex": "b"}]', ["a", "b"]),
        ('[{"text": > "a"}, {"text": `"b"}]', ["a", "b"]),
        ('[{"category: "text", "text": "a"}, {"text": "b"}]', ["a", "b"]),
        ('[{"category": "header", "text": "<td>"}]', ["<td>"]),
        ("[]", []),
    ],
)
def test_json_as_models_write_it(text, told):
    answer = parse_answer(text, "json", SIZE)
    assert [block.text for block in answer.blocks] == told
    assert answer.fault is None


def test_the_built_in_profiles_know_the_scale_of_their_boxes():
    scales = {profile.name: profile.box_scale for profile in built_in_profiles()}
    assert scales["chandra-ocr-2"] == scales["Infinity-Parser2-Flash"] == 1000
    assert scales["OCRia-1"] is None


def page_of(answer, turned=0, **facts):
    pixels = np.rot90(draw_lines(["The harbour master kept a ledger"] * 12), -turned // 90)
    reader = FakeReader([answer], unit="page", **facts)
    document = ocria.parse(scan_pdf(np.ascontiguousarray(pixels)), reader=reader)
    schema = json.loads((REPOSITORY / "ocria/document/write/schema.json").read_text())
    jsonschema.validate(json.loads(document.to_json()), schema)
    return document, document.pages[0]


def test_a_page_model_s_answer_becomes_blocks():
    html = div("Section-Header", "<h2>Ships</h2>", "0 0 500 100") + div(
        "Table", "<table><tr><th>a</th><td>b</td></tr></table>", "0 100 1000 500"
    )
    document, page = page_of(html, dialect="html", box_scale=1000)
    assert (page.status, page.error) == ("ok", None)
    heading, table = page.blocks
    assert heading.box == pytest.approx((0, 0, page.width / 2, page.height / 10), abs=0.01)
    assert table.box == pytest.approx((0, page.height / 10, page.width, page.height / 2), abs=0.01)
    assert heading.confidence == page.confidence == 0.9
    assert document.markdown == "## Ships\n\n<table>\n<tr><th>a</th><td>b</td></tr>\n</table>\n"
    told = json.loads(document.to_json())["pages"][0]["blocks"]
    assert (told[0]["level"], told[0]["cells"]) == (2, None)
    assert told[1]["cells"][0] == {
        "row": 0, "column": 0, "row_span": 1, "column_span": 1, "text": "a", "header": True,
    }  # fmt: skip


def test_boxes_of_a_turned_page_are_on_the_displayed_page():
    _, page = page_of(json.dumps([item("text", "x", (0, 0, 1000, 100))]), turned=90, dialect="json", box_scale=1000)
    assert page.rotation == 270
    # The top of the upright page is the right edge of the sheet that was turned clockwise.
    assert page.blocks[0].box == pytest.approx((page.width * 0.9, 0, page.width, page.height), abs=0.01)


def test_an_answer_that_breaks_off_leaves_its_page_truncated():
    document, page = page_of("Words\n\n<table><tr><td>a", dialect="markdown")
    assert page.status == "truncated"
    assert page.error == "the answer ends inside <table>"
    assert document.status == "partial"
    assert document.text.startswith("Words\n\na\n")


def test_what_the_engine_said_of_an_answer_stays():
    cut = ReadText("Words\n\n<table><tr><td>a", 0.8, "degenerate", 8, 9, "the answer loops")
    _, page = page_of(cut, dialect="markdown")
    assert page.status == "degenerate"
    assert "loops" in page.error
    assert len(page.blocks) == 2
