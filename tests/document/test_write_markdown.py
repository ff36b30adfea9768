"""Documents as Markdown and as plain text."""

import re
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from random_documents import NASTY, PIXEL, fresh, random_document, words

from ocria.document.escape import paragraph
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, Page, Picture
from ocria.document.write import figure_files, figure_targets, render
from ocria.errors import InputError


def block(kind, text, markdown=None, **more):
    return Block(kind, (1.0, 2.5, 30.0, 40.0), text, paragraph(text) if markdown is None else markdown, 0, **more)


def page(index, *blocks, status="ok", error=None):
    return Page(index, status, 612.0, 792.0, 0, "text", "", list(blocks), error=error)


def document(*pages):
    return Document("folder/a (b).pdf", len(pages), "0" * 64, list(pages))


def images_of(markdown):
    tokens = MarkdownIt("commonmark").parse(markdown)
    inline = [child for token in tokens for child in token.children or []]
    images = [token for token in inline if token.type == "image"]
    return [("".join(child.content for child in image.children), image.attrs["src"]) for image in images]


def test_items_of_a_list_stand_together_and_other_blocks_apart():
    blocks = [
        block("text", "before"), block("list-item", "a", "- a"), block("list-item", "b", "  - b"),
        block("list-item", "c", "- c"), block("text", "after"),
    ]  # fmt: skip
    told = document(page(1, *blocks), page(2, block("text", "end")))
    markdown = render(told, "md")
    assert markdown == "before\n\n- a\n  - b\n- c\n\nafter\n\nend\n"
    # Paragraphs in items would mean a loose list.
    assert [t.hidden for t in MarkdownIt().parse(markdown) if t.type == "paragraph_open" and t.level > 1] == [True] * 3
    assert render(told, "text") == "before\n\na\nb\nc\n\nafter\n\nend\n"
    assert told.markdown == markdown
    assert told.pages[1].markdown == "end"
    assert told.text == render(told, "text")


def test_a_list_goes_on_over_pages():
    told = document(page(1, block("list-item", "a", "1. a")), page(2, block("list-item", "b", "2. b")))
    assert render(told, "md") == "1. a\n2. b\n"
    assert render(told, "md", page_markers=True) == "<!-- page 1 ok -->\n\n1. a\n\n<!-- page 2 ok -->\n\n2. b\n"


def test_running_headers_are_left_out_unless_they_are_wanted_or_all_there_is():
    first = page(1, block("header", "Top"), block("text", "body"), block("footer", "9"))
    told = document(first, page(2, block("header", "Top")))
    kept = ParseOptions(keep_headers_footers=True)
    assert render(told, "md") == "body\n\nTop\n"
    assert render(told, "text") == "body\n\nTop\n"
    assert render(told, "md", options=kept) == "Top\n\nbody\n\n9\n\nTop\n"
    assert render(told, "text", options=kept) == "Top\n\nbody\n\n9\n\nTop\n"


def test_lost_pages_leave_a_trace_and_blank_ones_none():
    told = document(
        page(1, block("text", "words"), status="truncated", error="2 of 9 lines did not end well"),
        page(2, status="failed", error="no -- luck -->"),
        page(3, status="blank"),
    )
    assert render(told, "md") == (
        "words\n\n<!-- page 1 is incomplete (truncated): 2 of 9 lines did not end well -->\n\n"
        "<!-- page 2 is missing (failed): no - - luck - -› -->\n"
    )
    assert render(told, "md", page_markers=True).count("<!-- page 3 blank -->") == 1
    assert render(told, "text") == (
        "words\n\n[page 1 is incomplete (truncated): 2 of 9 lines did not end well]\n\n"
        "[page 2 is missing (failed): no -- luck -->]\n"
    )
    assert render(told, "text", page_markers=True).count("\f") == 3
    assert render(document(page(1, status="blank")), "md") == ""


def test_no_error_ends_its_comment():
    rng = fresh()
    for _ in range(200):
        error = "".join(rng.choice("->!< a") for _ in range(rng.randint(1, 12)))
        told = document(page(1, status="failed", error=error))
        markdown = render(told, "md")
        assert re.fullmatch(r"<!-- (?:(?!--)[^>])*-->\n", markdown), markdown


def test_a_document_that_was_not_read_says_why():
    told = Document("a.pdf", 0, "", error=InputError("the file is empty"))
    assert render(told, "md") == "<!-- the document could not be read: the file is empty -->\n"
    assert render(told, "text") == "[the document could not be read: the file is empty]\n"
    assert "The document could not be read: the file is empty" in render(told, "html")


def test_figures_by_option():
    picture = Picture(PIXEL, "image/png", 1, 1)
    told = document(page(3, block("picture", "", "", picture=picture)))
    assert render(told, "md") == ""
    assert render(told, "md", options=ParseOptions(images="placeholder")) == (
        "<!-- picture: page 3, box 1 2.5 30 40 -->\n"
    )
    embedded = render(told, "md", options=ParseOptions(images="embed"))
    assert embedded.startswith("![Figure on page 3](data:image/png;base64,iVBOR")
    assert images_of(render(told, "md", options=ParseOptions(images="extract"))) == [
        ("Figure on page 3", "a%20%28b%29.images/p3-1.png")
    ]


def test_words_of_figures_stay_whatever_becomes_of_their_pixels():
    picture = Picture(PIXEL, "image/png", 1, 1)
    texts = ("North\n10 *km*", "A [big] ship")
    told = document(page(1, *[block("picture", text, picture=picture) for text in texts]))
    for images in ("none", "placeholder", "embed", "extract"):
        html = MarkdownIt("commonmark").render(render(told, "md", options=ParseOptions(images=images)))
        assert "North<br />\n10 *km*" in html
        assert "A [big] ship" in html


def test_a_figure_whose_pixels_are_missing_has_its_place_marked():
    told = document(page(1, block("picture", "", "")))
    assert "<!-- picture: page 1" in render(told, "md", options=ParseOptions(images="embed"))


@pytest.mark.parametrize(
    "stem", ["my (paper)", "naïve 文档 ‘quote’ #1?", "a\"b'c", "50%", "a:b", "[x](y)", "a\\b", "-", "caf\udce9"]
)
def test_links_of_extracted_figures_lead_to_their_files(stem):
    picture = Picture(PIXEL, "image/png", 1, 1)
    photo = Picture(b"\xff\xd8\xff", "image/jpeg", 1, 1)
    blocks = [block("picture", "", "", picture=p) for p in (picture, None, photo)]
    told = document(page(1, *blocks), page(12, *[block("picture", "", "", picture=picture)]))
    files = figure_files(told, stem)
    assert list(files) == [f"{stem}.images/p1-1.png", f"{stem}.images/p1-2.jpg", f"{stem}.images/p12-1.png"]
    assert files[f"{stem}.images/p1-2.jpg"] == photo.data
    options = ParseOptions(images="extract")
    markdown = render(told, "md", options=options, picture_target=figure_targets(told, stem))
    links = [source for _, source in images_of(markdown)]
    assert [unquote(link, errors="surrogateescape") for link in links] == list(files)
    assert not any(re.match(r"[A-Za-z]+:", link) for link in links)


def test_descriptions_of_figures_survive_a_parser():
    rng = fresh()
    for _ in range(100):
        said = " ".join(f"x {words(rng, 6)}".split()).encode("utf-8", "replace").decode()
        told = document(page(1, block("picture", said, picture=Picture(PIXEL, "image/png", 1, 1))))
        ((alternative, _),) = images_of(render(told, "md", options=ParseOptions(images="embed")))
        assert alternative == said


def test_all_words_are_in_markdown():
    rng = fresh()
    for _ in range(30):
        told = random_document(rng)
        markdown = render(told, "md", options=ParseOptions(keep_headers_footers=True))
        for part in told.blocks:
            if part.type != "picture":
                assert part.markdown in markdown
    assert len(NASTY) > 30


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="docx"):
        render(document(page(1)), "docx")


def test_a_page_whose_table_is_told_on_the_one_before_has_more_than_its_header():
    pages = [
        page(1, block("header", "Stock of the north"), block("table", "a\tb", "| a | b |\n| --- | --- |")),
        page(2, block("header", "Stock of the north"), block("table", "", "", continues=1)),
    ]
    for kind in ("md", "text", "html"):
        assert "Stock" not in render(document(*pages), kind).split("</title>")[-1]
    assert "Stock" in render(document(*pages), "md", options=ParseOptions(keep_headers_footers=True))
