"""Documents of random blocks, with all that may go wrong in an output."""

import random

from ocria.document.escape import code_block, heading, paragraph
from ocria.document.result import Block, Cell, Document, LineText, Page, Picture
from ocria.document.table import cells_markdown, cells_text

NASTY = (
    "<script>alert(1)</script>", "</p>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "[a](javascript:b)",
    "data:text/html,x", "<!--", "-->", "--", "&amp;", "&", "a*b*c", "_x_", "`code`", "``", "$5", "$10", "|", "\\",
    "~~s~~", "# x", "1. y", "- z", "> q", "[1]", "[^1]:", "<style>", "<b>", "'", '"', "文字", "שלום", "😀", "e\u0301",
    "\u00a0", "]]>", "<http://a.b>", "\\(x\\)", "<a href='javascript:x'>", "=====", "\ud800",
)  # fmt: skip
WORDS = ("harbour", "ledger", "of", "the", "ship", "Captain", "wrote", "42", "well-known", "it’s", "naïve")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63680000008200815e9d0cb2"
    "0000000049454e44ae426082"
)


def fresh():
    """A seed, told so that a failure can be repeated, and its generator."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


def words(rng, most=12):
    return " ".join(rng.choice(NASTY if rng.random() < 0.3 else WORDS) for _ in range(rng.randint(1, most)))


def box(rng):
    x, y = rng.uniform(0, 300), rng.uniform(0, 500)
    return (round(x, 2), round(y, 2), round(x + rng.uniform(1, 200), 2), round(y + rng.uniform(1, 200), 2))


def table(rng):
    """Cells of a grid, some over several places."""
    rows, columns = rng.randint(1, 5), rng.randint(1, 5)
    taken, cells = set(), []
    head = rng.randint(0, rows)
    for row in range(rows):
        for column in range(columns):
            if (row, column) in taken:
                continue
            high = rng.randint(1, 2) if rng.random() < 0.2 and row + 1 < rows else 1
            free = column + 1 < columns and (row, column + 1) not in taken
            wide = rng.randint(1, 2) if rng.random() < 0.2 and free else 1
            taken |= {(r, c) for r in range(row, row + high) for c in range(column, column + wide)}
            text = words(rng, 3) if rng.random() < 0.9 else ""
            cells.append(Cell(row, column, high, wide, text, row < head or rng.random() < 0.1))
    return cells


def block(rng, order, kinds):
    kind = rng.choice(kinds)
    text = words(rng)
    if kind == "table":
        cells = table(rng)
        if not any(cell.text for cell in cells):
            return block(rng, order, kinds)
        return Block(kind, box(rng), cells_text(cells), cells_markdown(cells, "auto"), order, cells=cells)
    if kind == "code":
        lines = [words(rng, 4) for _ in range(rng.randint(1, 3))]
        return Block(kind, box(rng), "\n".join(lines), code_block(lines), order)
    if kind == "list-item":
        depth = rng.randint(0, 3)
        mark = rng.choice(("- ", f"{rng.randint(1, 20)}. "))
        return Block(kind, box(rng), text, "   " * depth + mark + paragraph(text), order, level=depth + 1)
    if kind in ("title", "heading"):
        level = rng.randint(1, 6)
        return Block(kind, box(rng), text, heading(paragraph(text), level), order, level=level)
    if kind == "picture":
        text = rng.choice(("", words(rng, 4), words(rng, 3) + "\n" + words(rng, 3)))
        picture = Picture(PIXEL, "image/png", 1, 1) if rng.random() < 0.7 else None
        return Block(kind, box(rng), text, paragraph(text), order, picture=picture)
    confidence = rng.choice((None, rng.random()))
    return Block(kind, box(rng), text, paragraph(text), order, confidence, font_size=rng.choice((None, 11.5)))


KINDS = (
    "title", "heading", "text", "text", "list-item", "list-item", "list-item", "code", "table", "picture", "formula",
    "caption", "footnote", "header", "footer",
)  # fmt: skip


def random_page(rng, index, kinds=KINDS):
    blocks = [block(rng, order, kinds) for order in range(rng.randint(0, 8))]
    status = rng.choice(("ok", "ok", "blank", "failed", "truncated", "degenerate", "timeout"))
    error = None if status in ("ok", "blank") else words(rng)
    lines = [LineText(box(rng), words(rng, 4), rng.choice((None, 0.5)), "ok") for _ in range(rng.randint(0, 2))]
    return Page(
        index, status, 612.0, 792.0, rng.choice((0, 90, 180, 270)), "text", words(rng, 3), blocks, lines,
        rng.randint(0, 99), rng.randint(0, 99), rng.random(), rng.choice((None, rng.random())), error,
    )  # fmt: skip


def random_document(rng, kinds=KINDS):
    pages = [random_page(rng, index + 1, kinds) for index in range(rng.randint(1, 4))]
    return Document("folder/naïve (file) 文.pdf", len(pages), "0" * 64, pages)
