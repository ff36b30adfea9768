"""The Markdown of blocks with styles in them says what the blocks say, whatever that is."""


import pytest
from test_escape import NASTY, parser

from ocria.document.structure.list_items import list_mark
from ocria.document.structure.pieces import Piece, Style
from ocria.document.structure.regions import Region
from ocria.document.structure.text_blocks import Flow, PageType

STYLES = [
    Style(),
    Style(),
    Style(),
    Style(bold=True),
    Style(italic=True),
    Style(bold=True, italic=True),
    Style(mono=True),
    Style(raised=True),
    Style(struck=True),
]


def pieces(rng, texts, x=60.0, y=100.0):
    """Words beside each other on lines of a page, some of them with no space between."""
    out = []
    left = x
    for text in texts:
        if x > 300:
            x, y = left, y + 14
        first = not out or out[-1].box[1] != y - 9
        width = 6.0 * len(text)
        spaced = not first and rng.random() < 0.7
        x += 4.0 if spaced else 0.0
        out.append(Piece(text, (x, y - 9, x + width, y + 3), y, 11.0, rng.choice(STYLES), round(y), 0, spaced, True))
        x += width
    return out


def visible(tokens):
    """What a reader sees, without white space; elements that hold text of their own show as such."""
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type == "html_inline":
            assert token.content in ("<sup>", "</sup>")
        elif token.type == "inline":
            parts.append(visible(token.children))
        elif token.type in ("formula", "image", "link_open", "fence", "html_block", "hr", "code_block"):
            parts.append(f"<{token.type}>")
    return "".join("".join(parts).split())


@pytest.mark.parametrize(
    ("kind", "opening"),
    [
        ("text", "paragraph_open"),
        ("caption", "paragraph_open"),
        ("footnote", "paragraph_open"),
        ("heading", "heading_open"),
        ("list-item", "list"),
    ],
)
def test_blocks_survive_a_markdown_parser(rng, kind, opening):
    words = [word for text in NASTY for word in text.split()]
    read = parser().parse
    for _ in range(250):
        texts = [rng.choice(words) for _ in range(rng.randint(1, 14))]
        made = pieces(rng, (["\u2022"] if kind == "list-item" else []) + texts)
        if kind == "list-item":
            made[0].style, made[1].spaced = Style(), True
        flow = Flow(PageType(11.0, False, 800.0))
        flow.add(Region(kind, (50, 80, 400, 300), pieces=made))
        for block in flow.blocks:
            if block.type == "code":
                continue
            tokens = read(block.markdown)
            if block.type == "list-item":
                mark, length = list_mark(block.text + " ")
                assert tokens[0].type == ("bullet_list_open" if mark == "-" else "ordered_list_open"), block.markdown
                wanted = block.text[length:]
            else:
                # A heading in the middle of a paragraph is text.
                assert tokens[0].type in (opening, "paragraph_open"), block.markdown
                assert (tokens[0].type == "heading_open") == (block.type == "heading")
                wanted = block.text
            assert visible(tokens) == "".join(wanted.split()), block.markdown
            assert sum(token.type == "inline" for token in tokens) == 1, block.markdown
        told = "".join(block.text for block in flow.blocks)
        assert sorted("".join(told.split()).replace("-", "")) == sorted("".join(p.text for p in made).replace("-", ""))
