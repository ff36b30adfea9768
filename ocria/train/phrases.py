"""Makers of lines that are no running prose: headings, receipts, numbers, addresses, cells, references."""

import random
import re
import string
from collections.abc import Callable

from ocria.train.corpus import Corpus

Maker = Callable[[Corpus, int, random.Random], str]
_MONTHS = ("January February March April May June July August September October November December").split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MARKS = "—–-•…*§†‡|/+=.:~_"
_UNITS = ("mm cm m km g kg mg ml l s ms h Hz kHz MHz GHz V mV kV A mA W kW MW K °C °F % ‰ dB MPa kPa Pa N J kJ "
          "mol ppm px pt nm µm µs MB GB kB/s m/s km/h in. ft lb oz").replace("‰ ", "").split()
_SHOP = ("TOTAL SUBTOTAL CASH CHANGE TAX GST VAT QTY ITEM AMOUNT DISCOUNT ROUNDING BALANCE INVOICE RECEIPT DATE TIME "
         "CASHIER TEL FAX NO REF TABLE COVER VISA MASTER DEBIT CARD TOTAL-SALES NETT PRICE RM UNIT MEMBER BILL "
         "SERVICE CHARGE PAYMENT COUNTER STATION DOC POS SR ZRL SUMMARY INCLUSIVE EXCLUDING THANK YOU PLEASE COME "
         "AGAIN GOODS SOLD ARE NOT RETURNABLE SDN BHD LTD CO JALAN LOT STREET TAMAN").split()


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
        return f"{rng.uniform(0, 100):.{rng.randint(0, 2)}f}{rng.choice(('%', ' %', ' ' + rng.choice(_UNITS)))}"
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
        return f"{rng.choice(('RM', 'USD', 'EUR', 'GBP', 'Rs.', 'CHF', '-$', '('))} {amount}".replace("( ", "(")
    return rng.choice((amount, f"-{amount}", f"({amount})", f"{rng.randint(1, 99)}¢", f"{amount} SR", f"{amount}-"))


def date(corpus: Corpus, target: int, rng: random.Random) -> str:
    d, m, y = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1790, 2026)
    month = _MONTHS[m - 1]
    return rng.choice((
        f"{d:02}/{m:02}/{y}", f"{d}/{m}/{y % 100:02}", f"{y}-{m:02}-{d:02}", f"{d:02}-{m:02}-{y}", f"{d}.{m}.{y}",
        f"{d} {month} {y}", f"{month} {d}, {y}", f"{month[:3]} {d}, {y}", f"{d}-{month[:3].upper()}-{y}",
        f"{rng.choice(_DAYS)}, {month} {d}", f"{month}, {y}", f"{d}th {month[:3]}. {y}", f"{y}–{y % 100 + 1:02}",
        f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}", f"{rng.randint(1, 12)}:{rng.randint(0, 59):02} {rng.choice(('AM', 'PM', 'a.m.', 'p.m.'))}",
        f"{d:02}/{m:02}/{y} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"))


def roman(corpus: Corpus, target: int, rng: random.Random) -> str:
    value, text = rng.choice((rng.randint(1, 39), rng.randint(1, 39), rng.randint(40, 1999))), ""
    for n, sign in ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
                    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text, value = text + sign * (value // n), value % n
    return rng.choice((text, text + ".", text.lower(), text.lower() + ".", f"({text.lower()})", f"[{text}]"))


def page_number(corpus: Corpus, target: int, rng: random.Random) -> str:
    n = rng.randint(1, rng.choice((20, 400, 1200)))
    return rng.choice((str(n),) * 6 + (f"- {n} -", f"[{n}]", f"({n})", f"Page {n}", f"p. {n}", f"– {n} –", f"{n}.", f"{n}/{n + 9}"))


def character(corpus: Corpus, target: int, rng: random.Random) -> str:
    return rng.choice(string.ascii_letters + string.digits + "•—-–*&%$£?!§()[]/")


def mark(corpus: Corpus, target: int, rng: random.Random) -> str:
    return rng.choice(_MARKS) * rng.choice((1, 1, 2, 3)) if rng.random() < 0.6 else rng.choice(("* * *", "...", "—", "- -", "• • •"))


def cell(corpus: Corpus, target: int, rng: random.Random) -> str:
    style = rng.random()
    if style < 0.45:
        return number(rng)
    if style < 0.75:
        word = rng.choice((corpus.word, corpus.name))(rng)
        return rng.choice((word, word.capitalize(), word.upper()))
    if style < 0.85:
        return rng.choice(("-", "–", "—", "n/a", "N/A", "Yes", "No", "yes", "no", "Total", "X", "none", "0", "1", "*", "n.s.", "<0.001", "ns"))
    return f"{rng.choice(string.ascii_uppercase)}{rng.choice(('', '-', '.'))}{rng.randint(0, 999)}"


def table_row(corpus: Corpus, target: int, rng: random.Random) -> str:
    cells = [corpus.word(rng).capitalize() if rng.random() < 0.8 else corpus.name(rng)]
    while sum(map(len, cells)) + len(cells) < target:
        cells.append(number(rng) if rng.random() < 0.75 else cell(corpus, 0, rng))
    return " ".join(cells)


def heading(corpus: Corpus, target: int, rng: random.Random) -> str:
    words = re.findall(r"[A-Za-z’']+", corpus.passage(rng, "prose"))[:max(1, target // 6)] or ["Contents"]
    text = " ".join(words)
    text = rng.choice((text.title(), text.title(), text.upper(), text.capitalize()))
    n = rng.randint(1, 30)
    prefix = rng.choice(("", "", "", f"{n}. ", f"{n}.{n % 7 + 1} ", f"{n}.{n % 7 + 1}.{n % 3 + 1} ", "Chapter " + str(n) + ": ",
                         "CHAPTER " + roman(corpus, 0, rng).strip("().[]").upper() + ". ", "§ " + str(n) + " ",
                         f"({chr(96 + n % 26 + 1)}) ", "Table " + str(n) + ". ", "Fig. " + str(n) + ". ",
                         "Appendix " + chr(65 + n % 26) + ": ", "• ", "BOOK " + str(n) + ". "))
    return prefix + text + rng.choice(("", "", "", ".", ":", "?"))


def page_header(corpus: Corpus, target: int, rng: random.Random) -> str:
    title = heading(corpus, target - 5, rng).upper() if rng.random() < 0.7 else heading(corpus, target - 5, rng)
    n = str(rng.randint(1, 999))
    return rng.choice((f"{n} {title}", f"{title} {n}", f"{title} [{rng.choice(('CH.', 'Book', 'Act'))} {roman(corpus, 0, rng)}"))


def contents(corpus: Corpus, target: int, rng: random.Random) -> str:
    title = heading(corpus, target // 2, rng)
    dots = max(3, target - len(title) - 5)
    fill = rng.choice((" ", "." * dots, " ." * (dots // 2))) if dots < 30 else " "
    return f"{title}{fill} {rng.randint(1, 700)}"


def receipt(corpus: Corpus, target: int, rng: random.Random) -> str:
    style = rng.random()
    if style < 0.3:
        label = rng.choice(_SHOP).replace("-", " ")
        return f"{label}{rng.choice((':', ' :', '', ''))} {rng.choice((price, date, price))(corpus, 0, rng)}"
    if style < 0.5:
        words = " ".join(rng.choice((corpus.word, corpus.name))(rng).upper() for _ in range(max(1, target // 12)))
        return f"{rng.choice(('', f'{rng.randint(1, 9)} ', f'{rng.randint(1, 20)} X '))}{words} {rng.uniform(0, 99):.2f}{rng.choice(('', '', ' SR', ' S', ' T', '*'))}"
    if style < 0.65:
        code = "".join(rng.choice(string.digits) for _ in range(rng.randint(4, 13)))
        return rng.choice((code, f"({code[:6]}-{rng.choice('AVXKTWH')})", f"GST ID : {code}", f"INVOICE NO: {rng.choice('ABCDS')}{code}",
                           f"GST REG NO.: {code}", f"#{code}", f"TEL: {code[:2]}-{code[2:]}", f"Doc No. : CS{code}", f"BILL NO {code}"))
    if style < 0.85:
        text = " ".join(rng.choice(_SHOP if rng.random() < 0.7 else (corpus.word(rng).upper(), corpus.name(rng).upper()))
                        for _ in range(max(1, target // 8)))
        return text.title() if rng.random() < 0.2 else text
    return f"{rng.choice(('NO.', 'LOT ', 'No '))}{rng.randint(1, 200)}{rng.choice(('', 'A', '-G', '-1'))}, {rng.choice(('JALAN', 'JLN', 'STREET', 'ROAD', 'LORONG'))} " \
           f"{corpus.name(rng).upper()} {rng.randint(1, 20)}/{rng.randint(1, 99)}, {rng.randint(10000, 99999)} {corpus.name(rng).upper()}"


def contact(corpus: Corpus, target: int, rng: random.Random) -> str:
    a, b = (re.sub(r"[^a-z]", "", rng.choice((corpus.name, corpus.word))(rng).lower()) or "info" for _ in range(2))
    top = rng.choice(("com", "com", "org", "net", "co.uk", "de", "edu", "gov", "io", "fr", "com.my"))
    digits = "".join(rng.choice(string.digits) for _ in range(12))
    style = rng.random()
    if style < 0.25:
        return f"{rng.choice(('', 'E-mail: ', 'email: ', 'Email:'))}{a}{rng.choice(('', '.', '_'))}{rng.choice(('', b, digits[:2]))}@{b}.{top}"
    if style < 0.55:
        return rng.choice((f"www.{a}{b}.{top}", f"http://www.{a}.{top}/{b}", f"https://{a}.{top}/{b}/{digits[:4]}", f"{a}.{top}/{b}.html",
                           f"https://doi.org/10.{digits[:4]}/{a}.{digits[4:10]}", f"https://{a}.{b}.{top}/?q={a}&id={digits[:3]}"))
    if style < 0.8:
        return rng.choice((f"+{digits[:2]} {digits[2:5]} {digits[5:9]}", f"({digits[:3]}) {digits[3:6]}-{digits[6:10]}", f"{digits[:3]}-{digits[3:6]}-{digits[6:10]}",
                           f"Tel. {digits[:5]} {digits[5:11]}", f"Tel: {digits[:2]}-{digits[2:10]}", f"Fax: +{digits[:2]} ({digits[2]}) {digits[3:10]}"))
    return rng.choice((f"{rng.randint(1, 999)} {corpus.name(rng)} {rng.choice(('Street', 'St.', 'Avenue', 'Road', 'Rd', 'Lane', 'Blvd.'))}",
                       f"{corpus.name(rng)}, {rng.choice(('NY', 'CA', 'TX', 'MA', 'IL'))} {digits[:5]}", f"P.O. Box {digits[:4]}, {corpus.name(rng)}",
                       f"{digits[:5]} {corpus.name(rng)}", f"{corpus.name(rng)} {rng.choice('ABCEKNW')}{digits[0]} {digits[1]}{rng.choice('ABDEH')}{rng.choice('LNPQT')}"))


def reference(corpus: Corpus, target: int, rng: random.Random) -> str:
    author = f"{corpus.name(rng)}, {rng.choice(string.ascii_uppercase)}."
    title = " ".join(re.findall(r"[A-Za-z-]+", corpus.passage(rng, "technical"))[:max(3, target // 9)]).capitalize()
    y, v, p = rng.randint(1890, 2025), rng.randint(1, 300), rng.randint(1, 2000)
    return rng.choice((f"[{rng.randint(1, 99)}] {author} ({y}). {title}.", f"{author} {title}. {v}({v % 12 + 1}):{p}–{p + 11}, {y}.",
                       f"{rng.randint(1, 60)}. {author}, “{title},” vol. {v}, pp. {p}-{p + 9}, {y}.", f"{title}, {v} ({y}), {p}–{p + 20}."))


def annotate(text: str, rng: random.Random) -> str:
    """Running text with a citation, a number with its unit, a percentage or a formula-like piece."""
    words = text.split()
    if len(words) < 3 or rng.random() < 0.35:
        return text
    at = rng.randrange(len(words))
    year = rng.randint(1930, 2025)
    piece = rng.choice((
        f"[{rng.randint(1, 99)}]", f"[{rng.randint(1, 40)}, {rng.randint(41, 80)}]", f"({words[0].capitalize()} et al., {year})",
        f"({year})", f"{number(rng)}", f"{rng.uniform(0, 100):.1f}%", f"{rng.uniform(0, 50):.{rng.randint(0, 2)}f} {rng.choice(_UNITS)}",
        f"(Fig. {rng.randint(1, 20)})", f"(Table {rng.randint(1, 9)})", f"Eq. ({rng.randint(1, 60)})", f"(p < 0.0{rng.randint(1, 5)})",
        f"n = {rng.randint(2, 999)}", "i.e.,", "e.g.,", f"{rng.choice('xyznkpt')} = {rng.randint(0, 99)}", f"O({rng.choice(('n', 'n log n', 'log n', 'mn'))})",
        f"{rng.randint(1, 99)}–{rng.randint(100, 200)}", f"{rng.randint(5, 40)} × {rng.randint(5, 40)}", f"{rng.randint(20, 99)} ± {rng.randint(1, 9)}",
        f"{rng.choice('ABCDGHKMNPRST')}({rng.choice('xyznk')})", f"{rng.randint(0, 90)}°"))
    return " ".join([*words[:at], piece, *words[at:]])[:len(text) + 8]


MAKERS: dict[str, Maker] = {
    "price": price, "date": date, "roman": roman, "page_number": page_number, "character": character, "mark": mark,
    "cell": cell, "table_row": table_row, "heading": heading, "page_header": page_header, "contents": contents,
    "receipt": receipt, "contact": contact, "reference": reference,
}
