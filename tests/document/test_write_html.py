"""Documents as HTML: whole, nested, and without any markup of the document's own."""

import re
from html.parser import HTMLParser

import pytest
from random_documents import fresh, random_document, words

from ocria.document.dialects import parse_answer
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Cell, Document, Page
from ocria.document.write import render

VOID = {"meta", "img", "br"}
KNOWN = VOID | {
    "html", "head", "title", "style", "body", "main", "section", "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol",
    "li", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "pre", "code", "aside", "header",
    "footer", "blockquote", "div", "span", "em", "strong", "s", "a", "sub", "sup", "u", "b", "i", "del",
}  # fmt: skip
ATTRIBUTES = {
    "charset", "name", "content", "id", "aria-label", "data-page", "data-status", "data-box", "dir", "class", "role",
    "start", "value", "scope", "colspan", "rowspan", "src", "alt", "width", "height", "href",
}  # fmt: skip


class Reader(HTMLParser):
    """Checks that every end has its beginning and keeps what is shown."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.said, self.links = [], [], [], []

    def handle_starttag(self, tag, attributes):
        assert tag in KNOWN
        for name, value in attributes:
            assert name in ATTRIBUTES, name
            if name in ("href", "src"):
                self.links.append(value)
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_comment(self, data):
        raise AssertionError("a comment got through")

    def handle_data(self, data):
        if "main" in self.open:
            self.said.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def squeezed(text):
    return "".join(text.encode("utf-8", "replace").decode().split())


def page_of(*blocks, route="text"):
    return Page(1, "ok", 612.0, 792.0, 0, route, "", list(blocks))


def document_of(*blocks, route="text"):
    return Document("a.pdf", 1, "0" * 64, [page_of(*blocks, route=route)])


def body(*blocks, route="text"):
    html = render(document_of(*blocks, route=route), "html")
    read(html)
    return re.sub(' data-box="[^"]*"', "", html.split("<main>\n")[1].split("\n</main>")[0])


def text_block(kind, text, markdown=None, **more):
    return Block(kind, (1.0, 2.0, 3.0, 4.0), text, text if markdown is None else markdown, 0, **more)


@pytest.mark.parametrize("images", ["none", "placeholder", "embed", "extract"])
def test_random_documents_are_whole_and_say_what_the_text_says(images):
    rng = fresh()
    for _ in range(25):
        document = random_document(rng)
        options = ParseOptions(images=images, keep_headers_footers=rng.random() < 0.5)
        html = render(document, "html", options=options)
        reader = read(html)
        for link in reader.links:
            assert re.match("data:image/png;base64,|https?:|mailto:", link) or images == "extract"
            assert not re.match("(?i)javascript|data:text", link)
        said = squeezed("".join(reader.said))
        if images == "none":
            for page in document.pages:
                page.status = "ok"
            whole = "".join(read(render(document, "html", options=options)).said)
            assert squeezed(whole) == squeezed(render(document, "text", options=options))
        for block in document.blocks:
            if block.type not in ("header", "footer", "table", "picture"):
                assert squeezed(block.text) in said


def test_random_documents_are_html5():
    html5lib = pytest.importorskip("html5lib")
    rng = fresh()
    for _ in range(25):
        document = random_document(rng)
        html = render(document, "html", options=ParseOptions(images="embed")).encode("utf-8", "replace").decode()
        html5lib.HTMLParser(strict=True).parse(html)


def test_the_head_tells_title_and_charset():
    html = render(document_of(text_block("title", "A <b>& B", "# A \\<b>& B")), "html")
    assert html.startswith("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">")
    assert "<title>A &lt;b&gt;&amp; B</title>" in html
    untitled = render(Document("x/</title>.pdf", 0, "0" * 64), "html")
    assert "<title>title&gt;.pdf</title>" in untitled


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<style>*{display:none}</style>",
        "[a](javascript:alert(1))", "[a](  JaVaScRiPt:alert(1))", "<javascript:alert(1)>", "[a](data:text/html,<b>)",
        "[a](vbscript:x)", "<!-- <b> -->", "![x](javascript:alert(1))", '[a](https://x"onmouseover="alert(1))',
        "<a href='javascript:x'>y</a>", "<svg/onload=alert(1)>", "&lt;script&gt;", "<iframe src=x>",
        '<b onclick="x">y</b>', "<sub style='x'>y</sub>", "$\\text{<script>}$", "$$<img src=x>$$",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["markdown", "html", "text", "json"])
def test_no_markup_of_a_model_gets_through(source, dialect):
    texts = [source, f"# {source}", f"- {source}", f"| a | {source} |\n|---|---|\n| {source} | b |", f"> {source}"]
    if dialect == "html":
        texts = [f"<p>{source}</p>", f"<table><tr><td>{source}</td></tr></table>", f"<pre>{source}</pre>"]
    if dialect == "json":
        texts = [f'[{{"bbox": [0, 0, 9, 9], "category": "Text", "text": "{source}"}}]']
    for text in texts:
        blocks = parse_answer(text, dialect, (612.0, 792.0)).blocks
        html = render(document_of(*blocks, route="model"), "html", options=ParseOptions(images="embed"))
        reader = read(html)
        assert not any(tag in ("script", "iframe", "svg") for tag, _ in reader.tags)
        assert sum(tag == "style" for tag, _ in reader.tags) == 1
        assert all(re.match("(?:https?|mailto):", link) for link in reader.links)


def test_marks_of_running_text_become_elements():
    markdown = "**bold *both*** `<c>` ~~gone~~ H<sub>2</sub>O [here](https://a.b/c?d=1&e) $x<y$ end\\\nnext"
    block = parse_answer(markdown, "markdown", (612.0, 792.0)).blocks[0]
    assert body(block, route="model").split("\n", 1)[1].removesuffix("\n</section>") == (
        "<p><strong>bold <em>both</em></strong> <code>&lt;c&gt;</code> <s>gone</s> H<sub>2</sub>O "
        '<a href="https://a.b/c?d=1&amp;e">here</a> <span class="math">\\(x&lt;y\\)</span> end<br>\nnext</p>'
    )


def test_dollars_of_a_text_layer_are_no_formulas():
    block = text_block("text", "$5 and $6", "\\$5 and \\$6")
    assert "<p>$5 and $6</p>" in body(block)


def test_markdown_that_lost_words_is_not_believed():
    block = text_block("text", "all the words", "*all* words")
    assert "<p>all the words</p>" in body(block)
    shown = text_block("text", "a <i x> b", "a <i x> b")
    assert "<p>a &lt;i x&gt; b</p>" in body(shown, route="model")


@pytest.mark.parametrize("route", ["text", "model"])
def test_items_lose_their_mark_and_nothing_else(route):
    text = "a well-known - item * of 1. all"
    for mark in ("", "• ", "(a) ", "12. "):
        html = body(text_block("list-item", mark + text, f"- {'' if route == 'text' else mark}{text}"), route=route)
        assert f"<li>{'' if route == 'text' else mark}{text}</li>" in html
    lost = text_block("list-item", text, "- another")
    assert f"<li>{text}</li>" in body(lost, route=route)


def test_lists_are_nested_by_their_indent():
    items = [
        text_block("list-item", "a", "- a"), text_block("list-item", "b", "  1. b"),
        text_block("list-item", "c", "  2. c"), text_block("text", "more", "     more"),
        text_block("list-item", "e", "  5. e"), text_block("list-item", "f", "- f"),
        text_block("list-item", "g", "7. g"),
    ]  # fmt: skip
    assert "".join(body(*items).split("\n")[1:-1]) == (
        '<ul><li>a<ol><li>b</li><li>c<p>more</p></li><li value="5">e</li></ol></li><li>f</li></ul>'
        '<ol start="7"><li>g</li></ol>'
    )


def test_a_table_has_a_head_spans_and_its_caption():
    cells = [
        Cell(0, 0, 1, 2, "A", True), Cell(1, 0, 2, 1, "x\ny", True), Cell(1, 1, 1, 1, "1", False),
        Cell(2, 1, 1, 1, "<2>", False),
    ]  # fmt: skip
    table = text_block("table", "A\nx y\t1\n\t<2>", cells=cells)
    html = body(text_block("caption", "Table 1"), table, text_block("text", "after"))
    assert html.replace("\n", "") == (
        '<section id="page-1" aria-label="Page 1" data-page="1" data-status="ok">'
        "<figure><figcaption>Table 1</figcaption>"
        '<table><thead><tr><th scope="col" colspan="2">A</th></tr></thead><tbody>'
        '<tr><th scope="row" rowspan="2">x<br>y</th><td>1</td></tr><tr><td>&lt;2&gt;</td></tr></tbody></table></figure>'
        "<p>after</p></section>"
    )


def test_a_cell_that_reaches_out_of_the_head_takes_its_row_along():
    cells = [Cell(0, 0, 2, 1, "A", True), Cell(0, 1, 1, 1, "B", True), Cell(1, 1, 1, 1, "1", False)]
    html = body(text_block("table", "A\tB\n\t1", cells=cells))
    assert "<thead>" not in html
    assert "<tbody>" in html


def test_types_of_blocks_become_elements():
    html = body(
        text_block("code", "a < b\n", "```python\na < b\n```"), text_block("footnote", "note", "[^1]: note"),
        text_block("formula", "$$\nx^2\n$$", "$$\nx^2\n$$"), text_block("text", "said", "> said"), route="model",
    )  # fmt: skip
    assert '<pre><code class="language-python">a &lt; b\n</code></pre>' in html
    assert '<aside class="footnote" role="doc-footnote"><p><sup class="label">1</sup> note</p></aside>' in html
    assert '<div class="formula math">\\[x^2\\]</div>' in html
    assert "<blockquote><p>said</p></blockquote>" in html


def test_headers_are_kept_on_request_and_where_they_are_all():
    header, rest = text_block("header", "Ledger"), text_block("text", "body")
    document = document_of(header, rest)
    assert "Ledger" not in render(document, "html")
    assert "<header" in render(document, "html", options=ParseOptions(keep_headers_footers=True))
    assert "Ledger" in render(document_of(header), "html")


def test_right_to_left_text_says_so():
    assert '<p dir="auto">שלום</p>' in body(text_block("text", "שלום"))
    assert "<p>plain</p>" in body(text_block("text", "plain"))


def test_a_lost_page_shows_and_a_blank_one_does_not():
    rng = fresh()
    error = words(rng)
    pages = [Page(1, "failed", 1.0, 1.0, 0, "model", "", error=error), Page(2, "blank", 1.0, 1.0, 0, "blank", "")]
    html = render(Document("a.pdf", 2, "0" * 64, pages), "html")
    reader = read(html)
    assert squeezed(f"Page 1 is missing (failed): {error}") == squeezed("".join(reader.said))
    assert 'data-page="2" data-status="blank">\n</section>' in html
