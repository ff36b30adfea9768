"""Makers of the lines that tills print: items in columns, totals, numbers of registration, addresses, rules."""

import random
import string

from ocria.train.corpus import Corpus
from ocria.train.figures import date, price

_SHOP = (  # noqa: SIM905 - a list would be one word a line
    "TOTAL SUBTOTAL CASH CHANGE TAX GST VAT QTY ITEM AMOUNT DISCOUNT ROUNDING BALANCE INVOICE RECEIPT "
    "DATE TIME CASHIER TEL FAX NO REF TABLE COVER VISA MASTER DEBIT CARD TOTAL-SALES NETT PRICE RM "
    "UNIT MEMBER BILL SERVICE CHARGE PAYMENT COUNTER STATION DOC POS SR ZRL SUMMARY INCLUSIVE "
    "EXCLUDING THANK YOU PLEASE COME AGAIN GOODS SOLD ARE NOT RETURNABLE SDN BHD LTD CO JALAN LOT "
    "STREET TAMAN"
).split()
_TOTALS = (
    "Total", "Sub Total", "Subtotal", "TOTAL SALES", "Total (Excl. Tax)", "Total Inclusive GST", "GST 6%", "VAT 20%",
    "Sales Tax", "Rounding", "ROUNDING ADJ", "Cash", "CASH TENDERED", "Change", "CHANGE DUE", "Balance Due",
    "Amount Due", "Service Charge 10%", "Discount", "Net Total", "Total Savings", "VISA", "Tip", "Item(s)", "Qty(s)",
    "Total Qty", "Deposit",
)  # fmt: skip
_HEADS = (
    "Description Qty U.Price Total", "Item Qty Price Amount", "QTY DESCRIPTION AMT", "ITEM DESCRIPTION PRICE TAX",
    "No. Item Disc Amt", "Qty Item U/P Amount", "GST SUMMARY AMOUNT(RM) TAX(RM)", "Tax Code % Net Amt GST",
    "DESC CODE/DESC PRICE DISC AMOUNT", "Code Qty Rate Value",
)  # fmt: skip
_POLITE = (
    "Thank you! Please come again.", "THANK YOU FOR SHOPPING WITH US", "GOODS SOLD ARE NOT RETURNABLE",
    "Goods sold are not refundable, thank you for choosing us.", "PLEASE KEEP THIS RECEIPT FOR EXCHANGE",
    "CUSTOMER COPY", "TAX INVOICE", "SIMPLIFIED TAX INVOICE", "*** THANK YOU ***", "** DUPLICATE **", "HAVE A NICE DAY",
    "Exchange within 7 days with receipt", "Prices include VAT where applicable", "- RECEIPT -", "CASH BILL",
    "CLOSED BILL", "Your server today was", "Tel us what you think", "All prices in RM",
)  # fmt: skip
_LABELS = (
    "Invoice No", "INV No.", "Bill No", "Receipt #", "Cashier", "CASHIER", "Table", "Pax", "Counter", "POS No",
    "Station", "Terminal", "Staff", "Clerk", "Member ID", "Ref", "Batch", "Trace No", "Approval Code", "Order No",
    "Date", "Time", "Till", "Trans", "GST ID", "GST Reg No", "Co. Reg No", "VAT No", "Tel", "Fax",
)  # fmt: skip


def receipt(corpus: Corpus, target: int, rng: random.Random) -> str:
    """One line of a till receipt, of the kinds above; only some of them follow `target`."""
    return rng.choices(_MAKERS, _WEIGHTS)[0](corpus, target, rng)


def _total(corpus: Corpus, target: int, rng: random.Random) -> str:
    label = rng.choice(_TOTALS) if rng.random() < 0.7 else rng.choice(_SHOP).replace("-", " ")
    label = rng.choice((label, label, label.upper()))
    figure = f"{rng.uniform(0, 200):.2f}" if rng.random() < 0.6 else rng.choice((price, date))(corpus, 0, rng)
    return f"{label}{rng.choice((':', ' :', '', '', ''))} {rng.choice(('', '', 'RM ', '$', '$ '))}{figure}"


def _goods(corpus: Corpus, target: int, rng: random.Random) -> str:
    words = " ".join(rng.choice((corpus.word, corpus.word, corpus.name))(rng) for _ in range(max(1, target // 13)))
    unit = rng.choice(("G", "ML", "g", "ml", "KG", "PCS", "S", "CM"))
    size = rng.choice(("", "", "", f" {rng.randint(1, 900)}{unit}"))
    return rng.choice((words.upper(), words.upper(), words.title(), words)) + size


def _item(corpus: Corpus, target: int, rng: random.Random) -> str:
    """Goods with a count before or behind, one to three figures, a letter of tax."""
    unit, count = rng.choice((rng.uniform(0.1, 9.9), rng.uniform(1, 99))), rng.choice((1, 1, 2, 3, rng.randint(1, 30)))
    figures = [f"{unit:.2f}", f"{unit * count:.2f}"]
    tax = rng.choice(("", "", " SR", " S", " T", "*", " ZRL", " Z", " A", " F"))
    times = rng.choice((f"{count} x", f"{count} X", f"{count}.00 X", f"{count} @", f"{count}"))
    name, code = _goods(corpus, target, rng), _digits(rng, rng.randint(4, 13))
    return rng.choice((
        f"{name} {figures[1]}{tax}", f"{count} {name} {figures[1]}{tax}", f"{times} {' '.join(figures)}{tax}",
        f"{name} {times} {' '.join(figures)}{tax}", f"{code} {times} {' '.join(figures)}{tax}", f"{code} {name}",
        f"{name} {count} {' '.join(figures)} 0.00{tax}", f"{rng.randint(1, 20)}. {name} {figures[1]}{tax}",
    ))  # fmt: skip


def _number(corpus: Corpus, target: int, rng: random.Random) -> str:
    code = _digits(rng, rng.randint(4, 13))
    company = f"({code[:6]}-{rng.choice('AVXKTWHUDPM')})"
    return rng.choice((
        code, company, f"{corpus.name(rng).upper()} SDN BHD {company}", f"GST ID : {code}", f"GST REG NO.: {code}",
        f"INVOICE NO: {rng.choice('ABCDS')}{code}", f"#{code}", f"TEL: {code[:2]}-{code[2:]}",
        f"Tel:{code[:2]}-{code[2:5]} {code[5:]}", f"Doc No. : CS{code}", f"BILL NO {code}",
    ))  # fmt: skip


def _labelled(corpus: Corpus, target: int, rng: random.Random) -> str:
    """One or two labels with their values, as the head of a receipt has them."""
    parts = []
    for _ in range(rng.choice((1, 1, 2))):
        value = rng.choice((
            _digits(rng, rng.randint(1, 8)), f"{rng.choice(string.ascii_uppercase)}{_digits(rng, rng.randint(2, 7))}",
            corpus.name(rng), date(corpus, 0, rng), f"{_digits(rng, 2)}-{_digits(rng, 8)}",
        ))  # fmt: skip
        parts.append(f"{rng.choice(_LABELS)}{rng.choice((':', ' :', ': ', ' : ', ' '))}{value}")
    return " ".join(parts)


def _words(corpus: Corpus, target: int, rng: random.Random) -> str:
    text = " ".join(
        rng.choice(_SHOP if rng.random() < 0.7 else (corpus.word(rng).upper(), corpus.name(rng).upper()))
        for _ in range(max(1, target // 8))
    )
    return text.title() if rng.random() < 0.3 else text


def _address(corpus: Corpus, target: int, rng: random.Random) -> str:
    house = f"{rng.choice(('NO.', 'LOT ', 'No ', 'No. ', ''))}{rng.randint(1, 200)}{rng.choice(('', 'A', '-G', '-1'))}"
    street = f"{rng.choice(('JALAN', 'JLN', 'STREET', 'ROAD', 'LORONG'))} {corpus.name(rng).upper()}"
    town = f"{rng.randint(10000, 99999)} {corpus.name(rng).upper()}"
    text = rng.choice((f"{house}, {street} {rng.randint(1, 20)}/{rng.randint(1, 99)}, {town}", f"{house}, {street},",
                       f"{town}, {corpus.name(rng).upper()}.", town))  # fmt: skip
    return rng.choice((text, text.title()))


def _head(corpus: Corpus, target: int, rng: random.Random) -> str:
    return rng.choice(_HEADS if rng.random() < 0.4 else _POLITE)


def _prose(corpus: Corpus, target: int, rng: random.Random) -> str:
    """Some words of running text, as the conditions at the foot of a receipt have them."""
    words = corpus.passage(rng, "prose").split()
    start = rng.randrange(len(words))
    text = " ".join(words[start : start + max(2, target // 7)])
    return rng.choice((text, text, text.upper(), text.title()))


def _tax(corpus: Corpus, target: int, rng: random.Random) -> str:
    rate, net = rng.choice((0, 0, 5, 6, 6, 7, 10, 20)), rng.uniform(0, 150)
    name = rng.choice(("SR", "ZRL", "S", "Z", "GST", "VAT", "A", "T1"))
    text = rng.choice((f"{name} {rate}%", f"{name} ({rate}%)", f"{name} @ {rate}%", f"{name}={rate}%"))
    return f"{text} {net:.2f} {net * rate / 100:.2f}"


def rule(corpus: Corpus, target: int, rng: random.Random) -> str:
    """A printed rule: one sign again and again."""
    return rng.choice("--==*_.~#") * rng.randint(8, max(9, min(40, target)))


def _digits(rng: random.Random, n: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(n))


_MAKERS = (_total, _item, _number, _labelled, _words, _address, _head, _tax, rule, _prose)
_WEIGHTS = (18, 22, 9, 12, 9, 9, 7, 5, 1, 14)
