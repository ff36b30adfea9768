"""Tables drawn on pages of a PDF, with the truth about them."""

from dataclasses import dataclass

import pymupdf

WORDS = [
    "amber", "barley", "cedar", "copper", "delta", "ember", "flint", "garnet", "harbour", "indigo", "jasper",
    "kelp", "larch", "mortar", "nickel", "oak", "pepper", "quartz", "resin", "slate", "timber", "umber",
    "velvet", "walnut", "yarrow", "zinc",
]  # fmt: skip


@dataclass
class Drawn:
    """A table as it was drawn: `(row, column, row span, column span, text)` of its cells."""

    cells: list
    bottom: float


def words(rng, least=1, most=2):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def random_cells(rng, rows, columns, spans=True):
    """Cells that tile a grid; some span others."""
    free = [[True] * columns for _ in range(rows)]
    cells = []
    for row in range(rows):
        for column in range(columns):
            if not free[row][column]:
                continue
            wide = high = 1
            if spans and rng.random() < 0.15:
                while column + wide < columns and free[row][column + wide] and rng.random() < 0.5:
                    wide += 1
                if row + 1 < rows and wide == 1 and rng.random() < 0.5:
                    high = 2
            for r in range(row, row + high):
                for c in range(column, column + wide):
                    free[r][c] = False
            cells.append((row, column, high, wide, f"{words(rng, 1, 1)} {rng.randint(1, 99)}"))
    return cells


def draw_table(page, cells, *, left=60.0, top=100.0, width=90.0, height=20.0, bold_rows=0, size=9.0):
    """Draw the cells with lines around them; returns the table with the y of its end."""
    for row, column, high, wide, text in cells:
        x, y = left + column * width, top + row * height
        page.draw_rect(pymupdf.Rect(x, y, x + wide * width, y + high * height), width=0.7)
        font = "hebo" if row < bold_rows else "helv"
        page.insert_text((x + 4, y + 13), text, fontsize=size, fontname=font)
    return Drawn(cells, top + height * max(row + high for row, _, high, _, _ in cells))


def prose(page, x, y, rng, lines=3, width=6, size=11.0):
    """Some lines of words; returns their text."""
    out = []
    for line in range(lines):
        text = words(rng, width, width) + "."
        page.insert_text((x, y + 1.25 * size * line), text, fontsize=size)
        out.append(text)
    return " ".join(out)
