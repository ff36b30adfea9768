"""Makers of figures and cells: numbers, prices, dates, page numbers, table rows, single characters."""

import random
import string

from ocria.train.corpus import Corpus

_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_MARKS = "—–-•…*§†‡|/+=.:~_"
UNITS = (
    (
        "mm cm m km g kg mg ml l s ms h Hz kHz MHz GHz V mV kV A mA W kW MW K °C °F % ‰ dB MPa kPa Pa N J kJ "
        "mol ppm px pt nm µm µs MB GB kB/s m/s km/h in. ft lb oz m² m³ cm² km² cm³ m·s"
    )
    .replace("‰ ", "")
    .split()
)


def number(rng: random.Random) -> str:
    """A number as tables and prose write it."""
    style, n = rng.random(), rng.choice((9, 99, 999, 9999, 99999, 9999999))
    value = rng.randint(0, n)
    if style < 0.3:
        return str(value)
    if style < 0.5:
        return f"{value:,}"
    if style < 0.75:
        return f"{rng.uniform(0, n):.{rng.randint(1, 4)}f}"
    if style < 0.85:
        return f"{rng.choice('-–+±~')}{rng.uniform(0, 99):.{rng.randint(0, 2)}f}"
    if style < 0.95:
        return (
            f"{rng.uniform(0, 100):.{rng.randint(0, 2)}f}{rng.choice(('%', ' %', ' ' + rng.choice(UNITS)))}"
        )
    return f"{rng.uniform(1, 9.9):.2f}{rng.choice(('e-', 'E+', ' × 10'))}{rng.randint(1, 9)}"


def price(corpus: Corpus, target: int, rng: random.Random) -> str:
    value = rng.choice((rng.uniform(0, 20), rng.uniform(0, 300), rng.uniform(0, 20000)))
    amount = f"{value:,.2f}" if rng.random() < 0.8 else f"{value:.0f}"
    style = rng.random()
    if style < 0.5:
        return rng.choice("$$$£€¥") + amount
    if style < 0.6:
        return f"{amount} €"
    if style < 0.8:
        return f"{rng.choice(('RM', 'USD', 'EUR', 'GBP', 'Rs.', 'CHF', '-$', '('))} {amount}".replace(
            "( ", "("
        )
    return rng.choice(
        (amount, f"-{amount}", f"({amount})", f"{rng.randint(1, 99)}¢", f"{amount} SR", f"{amount}-")
    )


def date(corpus: Corpus, target: int, rng: random.Random) -> str:
    d, m, y = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1790, 2026)
    month = _MONTHS[m - 1]
    return rng.choice(
        (
            f"{d:02}/{m:02}/{y}",
            f"{d}/{m}/{y % 100:02}",
            f"{y}-{m:02}-{d:02}",
            f"{d:02}-{m:02}-{y}",
            f"{d}.{m}.{y}",
            f"{d} {month} {y}",
            f"{month} {d}, {y}",
            f"{month[:3]} {d}, {y}",
            f"{d}-{month[:3].upper()}-{y}",
            f"{rng.choice(_DAYS)}, {month} {d}",
            f"{month}, {y}",
            f"{d}th {month[:3]}. {y}",
            f"{y}–{y % 100 + 1:02}",
            f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
            f"{rng.randint(1, 12)}:{rng.randint(0, 59):02} {rng.choice(('AM', 'PM', 'a.m.', 'p.m.'))}",
            f"{d:02}/{m:02}/{y} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}",
        )
    )


def roman(corpus: Corpus, target: int, rng: random.Random) -> str:
    value, text = rng.choice((rng.randint(1, 39), rng.randint(1, 39), rng.randint(40, 1999))), ""
    for n, sign in (
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ):
        text, value = text + sign * (value // n), value % n
    return rng.choice((text, text + ".", text.lower(), text.lower() + ".", f"({text.lower()})", f"[{text}]"))


def page_number(corpus: Corpus, target: int, rng: random.Random) -> str:
    n = rng.randint(1, rng.choice((20, 400, 1200)))
    return rng.choice(
        (str(n),) * 6
        + (f"- {n} -", f"[{n}]", f"({n})", f"Page {n}", f"p. {n}", f"– {n} –", f"{n}.", f"{n}/{n + 9}")
    )


def character(corpus: Corpus, target: int, rng: random.Random) -> str:
    return rng.choice(string.ascii_letters + string.digits + "•—-–*&%$£?!§()[]/")


def mark(corpus: Corpus, target: int, rng: random.Random) -> str:
    return (
        rng.choice(_MARKS) * rng.choice((1, 1, 2, 3))
        if rng.random() < 0.6
        else rng.choice(("* * *", "...", "—", "- -", "• • •"))
    )


def cell(corpus: Corpus, target: int, rng: random.Random) -> str:
    style = rng.random()
    if style < 0.45:
        return number(rng)
    if style < 0.75:
        word = rng.choice((corpus.word, corpus.name))(rng)
        return rng.choice((word, word.capitalize(), word.upper()))
    if style < 0.85:
        return rng.choice(
            (
                "-",
                "–",
                "—",
                "n/a",
                "N/A",
                "Yes",
                "No",
                "yes",
                "no",
                "Total",
                "X",
                "none",
                "0",
                "1",
                "*",
                "n.s.",
                "<0.001",
                "ns",
            )
        )
    return f"{rng.choice(string.ascii_uppercase)}{rng.choice(('', '-', '.'))}{rng.randint(0, 999)}"


def table_row(corpus: Corpus, target: int, rng: random.Random) -> str:
    cells = [corpus.word(rng).capitalize() if rng.random() < 0.8 else corpus.name(rng)]
    while sum(map(len, cells)) + len(cells) < target:
        cells.append(number(rng) if rng.random() < 0.75 else cell(corpus, 0, rng))
    return " ".join(cells)
