"""Makers of lines that are no running prose: headings, receipts, addresses, references, notes; and of what
is set into prose: citations, quantities."""

import random
import re
import string
from collections.abc import Callable

from ocria.train.charset import SUPERSCRIPT
from ocria.train.corpus import Corpus
from ocria.train.figures import (
    UNITS,
    cell,
    character,
    date,
    mark,
    number,
    page_number,
    price,
    roman,
    table_row,
)
from ocria.train.receipts import receipt, rule

Maker = Callable[[Corpus, int, random.Random], str]


def heading(corpus: Corpus, target: int, rng: random.Random) -> str:
    words = re.findall(r"[A-Za-z’']+", corpus.passage(rng, "prose"))[: max(1, target // 6)] or ["Contents"]
    text = " ".join(words)
    text = rng.choice((text.title(), text.title(), text.upper(), text.capitalize()))
    n = rng.randint(1, 30)
    prefix = rng.choice(
        (
            "",
            "",
            "",
            f"{n}. ",
            f"{n}.{n % 7 + 1} ",
            f"{n}.{n % 7 + 1}.{n % 3 + 1} ",
            "Chapter " + str(n) + ": ",
            "CHAPTER " + roman(corpus, 0, rng).strip("().[]").upper() + ". ",
            "§ " + str(n) + " ",
            f"({chr(96 + n % 26 + 1)}) ",
            "Table " + str(n) + ". ",
            "Fig. " + str(n) + ". ",
            "Appendix " + chr(65 + n % 26) + ": ",
            "• ",
            "BOOK " + str(n) + ". ",
        )
    )
    return prefix + text + rng.choice(("", "", "", ".", ":", "?"))


def page_header(corpus: Corpus, target: int, rng: random.Random) -> str:
    title = (
        heading(corpus, target - 5, rng).upper() if rng.random() < 0.7 else heading(corpus, target - 5, rng)
    )
    n = str(rng.randint(1, 999))
    return rng.choice(
        (
            f"{n} {title}",
            f"{title} {n}",
            f"{title} [{rng.choice(('CH.', 'Book', 'Act'))} {roman(corpus, 0, rng)}",
        )
    )


def contents(corpus: Corpus, target: int, rng: random.Random) -> str:
    title = heading(corpus, target // 2, rng)
    title = title[: max(8, target - 8)].rstrip()
    dots = max(3, target - len(title) - 5)
    fill = rng.choice((" ", "." * dots, " ." * (dots // 2), " " + "." * dots))
    page = rng.randint(1, 700) if rng.random() < 0.85 else roman(corpus, 0, rng).strip("().[]").lower()
    return f"{title}{fill} {page}"


def repeated(corpus: Corpus, target: int, rng: random.Random) -> str:
    """Words, figures or pieces of code again and again: what finds its place by content loses it here."""
    style = rng.random()
    word = corpus.word(rng)
    if style < 0.35:
        words = [word, *(rng.choice((corpus.word, corpus.name))(rng) for _ in range(rng.choice((0, 0, 1, 2))))]
        glue = rng.choice((" ", " ", ", ", " and ", "-"))
        text = glue.join(rng.choice(words) if rng.random() < 0.3 else words[i % len(words)] for i in range(40))
        return (text.capitalize() if rng.random() < 0.4 else text)[: max(target, 6)].rstrip(" ,-")
    if style < 0.6:
        values = [number(rng), rng.choice(("0", "0.00", "1", "-", "n/a", number(rng)))]
        return " ".join(rng.choices(values, (2, 3), k=max(2, target // 6)))[: max(target, 4)].rstrip()
    if style < 0.8:
        piece = rng.choice((
            f"0x{rng.randrange(256):02x}, ", f"{rng.randint(0, 9)}, ", f"[{rng.randint(0, 3)}]", "NULL, ", "0.0f, ",
            f"{word[:4]}, ", f"'{word[:1]}', ", "../", f"{word[:3]}.", "->next", "((", "-- ",
        ))  # fmt: skip
        return rng.choice(("", "{ ", f"{word} = ")) + (piece * 40)[: max(target - 4, 4)].rstrip()
    start = rng.randint(0, 30)
    step = rng.choice((1, 1, 2, 5, 10))
    glue = rng.choice((" ", ", ", " | ", "–"))
    return glue.join(str(start + i * step) for i in range(40))[: max(target, 4)].rstrip(" ,|–")


def contact(corpus: Corpus, target: int, rng: random.Random) -> str:
    a, b = (
        re.sub(r"[^a-z]", "", rng.choice((corpus.name, corpus.word))(rng).lower()) or "info" for _ in range(2)
    )
    top = rng.choice(("com", "com", "org", "net", "co.uk", "de", "edu", "gov", "io", "fr", "com.my"))
    digits = "".join(rng.choice(string.digits) for _ in range(12))
    style = rng.random()
    if style < 0.25:
        label = rng.choice(("", "E-mail: ", "email: ", "Email:"))
        return f"{label}{a}{rng.choice(('', '.', '_'))}{rng.choice(('', b, digits[:2]))}@{b}.{top}"
    if style < 0.55:
        return rng.choice(
            (
                f"www.{a}{b}.{top}",
                f"http://www.{a}.{top}/{b}",
                f"https://{a}.{top}/{b}/{digits[:4]}",
                f"{a}.{top}/{b}.html",
                f"https://doi.org/10.{digits[:4]}/{a}.{digits[4:10]}",
                f"https://{a}.{b}.{top}/?q={a}&id={digits[:3]}",
            )
        )
    if style < 0.8:
        return rng.choice(
            (
                f"+{digits[:2]} {digits[2:5]} {digits[5:9]}",
                f"({digits[:3]}) {digits[3:6]}-{digits[6:10]}",
                f"{digits[:3]}-{digits[3:6]}-{digits[6:10]}",
                f"Tel. {digits[:5]} {digits[5:11]}",
                f"Tel: {digits[:2]}-{digits[2:10]}",
                f"Fax: +{digits[:2]} ({digits[2]}) {digits[3:10]}",
            )
        )
    postcode = f"{rng.choice('ABCEKNW')}{digits[0]} {digits[1]}{rng.choice('ABDEH')}{rng.choice('LNPQT')}"
    road = rng.choice(("Street", "St.", "Avenue", "Road", "Rd", "Lane", "Blvd."))
    return rng.choice(
        (
            f"{rng.randint(1, 999)} {corpus.name(rng)} {road}",
            f"{corpus.name(rng)}, {rng.choice(('NY', 'CA', 'TX', 'MA', 'IL'))} {digits[:5]}",
            f"P.O. Box {digits[:4]}, {corpus.name(rng)}",
            f"{digits[:5]} {corpus.name(rng)}",
            f"{corpus.name(rng)} {postcode}",
        )
    )


def reference(corpus: Corpus, target: int, rng: random.Random) -> str:
    author = f"{corpus.name(rng)}, {rng.choice(string.ascii_uppercase)}."
    title = " ".join(
        re.findall(r"[A-Za-z-]+", corpus.passage(rng, "technical"))[: max(3, target // 9)]
    ).capitalize()
    y, v, p = rng.randint(1890, 2025), rng.randint(1, 300), rng.randint(1, 2000)
    return rng.choice(
        (
            f"[{rng.randint(1, 99)}] {author} ({y}). {title}.",
            f"{author} {title}. {v}({v % 12 + 1}):{p}–{p + 11}, {y}.",
            f"{rng.randint(1, 60)}. {author}, “{title},” vol. {v}, pp. {p}-{p + 9}, {y}.",
            f"{title}, {v} ({y}), {p}–{p + 20}.",
        )
    )


def footnote(corpus: Corpus, target: int, rng: random.Random) -> str:
    """A note below the page: its sign or raised number, then a place in a book or a remark."""
    sign = rng.choice(
        (
            "* ",
            "† ",
            "‡ ",
            "*",
            "** ",
            "§ ",
            "(1) ",
            "[2] ",
            f"{rng.randint(1, 40)} ",
            f"{rng.randint(1, 9)}. ",
            *(str(rng.randint(1, 60)).translate(SUPERSCRIPT) + rng.choice(("", " ")) for _ in range(4)),
        )
    )
    place = rng.choice(
        (
            f"Ibid., p. {rng.randint(1, 400)}.",
            f"See {corpus.name(rng)}, vol. {roman(corpus, 0, rng).strip('().[]')}, p. {rng.randint(1, 400)}.",
            f"{corpus.name(rng)}, op. cit., pp. {rng.randint(1, 99)}–{rng.randint(100, 200)}.",
            "Vide supra, ",
            "Cf. ",
        )
    )
    return (
        f"{sign}{place} {corpus.passage(rng, 'prose')}"
        if rng.random() < 0.5
        else sign + corpus.passage(rng, "prose")
    )


def annotate(text: str, rng: random.Random) -> str:
    """Running text with a citation, a number with its unit, a percentage or a formula-like piece."""
    words = text.split()
    if len(words) < 3 or rng.random() < 0.35:
        return text
    at = rng.randrange(len(words))
    year = rng.randint(1930, 2025)
    piece = rng.choice(
        (
            f"[{rng.randint(1, 99)}]",
            f"[{rng.randint(1, 40)}, {rng.randint(41, 80)}]",
            f"({words[0].capitalize()} et al., {year})",
            f"({year})",
            f"{number(rng)}",
            f"{rng.uniform(0, 100):.1f}%",
            f"{rng.uniform(0, 50):.{rng.randint(0, 2)}f} {rng.choice(UNITS)}",
            f"(Fig. {rng.randint(1, 20)})",
            f"(Table {rng.randint(1, 9)})",
            f"Eq. ({rng.randint(1, 60)})",
            f"(p < 0.0{rng.randint(1, 5)})",
            f"n = {rng.randint(2, 999)}",
            "i.e.,",
            "e.g.,",
            f"{rng.choice('xyznkpt')} = {rng.randint(0, 99)}",
            f"O({rng.choice(('n', 'n log n', 'log n', 'mn'))})",
            f"{rng.randint(1, 99)}–{rng.randint(100, 200)}",
            f"{rng.randint(5, 40)} × {rng.randint(5, 40)}",
            f"{rng.randint(20, 99)} ± {rng.randint(1, 9)}",
            f"{rng.choice('ABCDGHKMNPRST')}({rng.choice('xyznk')})",
            f"{rng.randint(0, 90)}°",
        )
    )
    return " ".join([*words[:at], piece, *words[at:]])


MAKERS: dict[str, Maker] = {
    "price": price,
    "date": date,
    "roman": roman,
    "page_number": page_number,
    "character": character,
    "mark": mark,
    "cell": cell,
    "table_row": table_row,
    "heading": heading,
    "page_header": page_header,
    "contents": contents,
    "receipt": receipt,
    "rule": rule,
    "repeated": repeated,
    "contact": contact,
    "reference": reference,
    "footnote": footnote,
}
