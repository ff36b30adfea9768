"""A text layer that lies is found by its pixels, and an honest one is not."""


import pymupdf
import pytest
from made import FakeReader
from made_liars import DIGITS, LETTERS, lying_pdf, shifted, swapped

import ocria
from ocria.document.check_text import TextCheck, find_lie
from ocria.document.pdf import PdfSource
from ocria.document.reader import Reader, ReadText

LINES = [
    "The keeper of the lighthouse climbed the stairs each evening with oil",
    "and when the weather was clear he could count the lamps of villages.",
    "Invoice 4711 of 29 March 1987: 16 boxes at 38.52, 24 bags at 37.95",
]


@pytest.fixture(scope="module")
def nano():
    return Reader()


def facts_of(data):
    page = PdfSource("made", data, "").page(1)
    return page, page.look()


def verdict(data, reader):
    page, facts = facts_of(data)
    check = TextCheck()
    check.ask(check.unknown(facts), page.render(200), facts.width, reader)
    return check.lie(facts)


def permuted(rng, characters):
    """Each character another one."""
    while True:
        others = rng.sample(characters, len(characters))
        if all(one != other for one, other in zip(characters, others, strict=True)):
            return dict(zip(characters, others, strict=True))


def test_fonts_that_prove_themselves_are_not_asked(born_digital):
    assert facts_of(born_digital)[1].doubtful == ()
    assert facts_of(lying_pdf(LINES, {}))[1].doubtful == ()


def test_a_wrong_map_is_doubted_and_its_lines_are_told(rng):
    _, facts = facts_of(lying_pdf(LINES, swapped(*rng.sample(DIGITS, 2))))
    (font,) = facts.doubtful
    assert font.letters == sum(c.isalnum() for c in "".join(LINES))
    assert 2 <= len(font.samples) <= 5
    assert sum(c.isdigit() for sample in font.samples for c in sample.text) > 20
    for sample in font.samples:
        x0, y0, x1, y1 = sample.box
        assert 38 < x0 < x1 < 595
        assert 9 < y1 - y0 < 20


def test_a_liar_is_found(rng, nano):
    wrong = rng.choice(
        [
            shifted(rng.randint(1, 25)),
            permuted(rng, LETTERS),
            permuted(rng, DIGITS),
            swapped(*rng.choice(["17", "29", "27", "79", "12"])),
            swapped(*rng.choice(["et", "ao", "sn", "ht"])),
        ]
    )
    data = lying_pdf(LINES, wrong, font=rng.choice(["helv", "tiro", "cour"]), direction=rng.choice([0, 90]))
    lie = verdict(data, nano)
    assert lie is not None
    assert "says something else than the pixels" in lie


def test_honest_text_is_believed(rng, nano):
    # A map that is wrong for a sign alone makes the font doubtful and leaves its letters right.
    font, direction = rng.choice(["helv", "tiro", "cour"]), rng.choice([0, 90])
    data = lying_pdf([*LINES, "é"], {"é": "ö"}, font=font, direction=direction)
    assert facts_of(data)[1].doubtful
    assert verdict(data, nano) is None


def test_what_is_a_lie():
    cipher = [("KHOOR ZRUOG", "HELLO WORLD"), ("vhfrqg olqh", "second line")]
    assert find_lie(cipher) == "'KHOOR ZRUOG' for 'HELLO WORLD'"
    assert find_lie([("total 338", "total 883"), ("3 of 39 boxes", "8 of 89 boxes")]) == "'3' for '8'"
    # The model's own errors: now and then, or one character for another that looks like it.
    assert find_lie([("second line", "seoond lire"), ("HELLO WORLD", "HELO WORLD")]) is None
    assert find_lie([("total 0 for 0", "total O for O"), ("box 10 and 20", "box 1O and 2O")]) is None
    # Case, accents and signs are not compared.
    assert find_lie([("Café “Noir” — 12", "CAFE NOIR 12"), ("naïve façade", "naive facade")]) is None
    # One bad line among good ones, or too little to tell.
    good = ("the old lantern", "the old lantern")
    assert find_lie([("harbour ledger", "mmmmmm"), good, good]) is None
    assert find_lie([("KHOOR", "HELLO")]) is None
    assert find_lie([]) is None


def test_unsure_readings_do_not_vote():
    _, facts = facts_of(lying_pdf(LINES, shifted(1)))
    check = TextCheck()
    unsure = FakeReader([ReadText("something quite different", 0.5, "ok", 8, 9)])
    page = PdfSource("made", lying_pdf(LINES, shifted(1)), "").page(1)
    for _ in range(5):
        if not check.unknown(facts):
            break
        check.ask(check.unknown(facts), page.render(200), facts.width, unsure)
    else:
        pytest.fail("asked for ever")
    assert check.lie(facts) is None


def test_the_pixels_win_and_the_reason_is_told():
    reader = FakeReader(["HELLO WORLD of plain words"])
    page = ocria.parse(lying_pdf(LINES, swapped("e", "t")), reader=reader).pages[0]
    assert page.route == "model"
    assert page.reason.startswith("the text layer says something else than the pixels: '")
    assert page.reason.endswith("for 'HELLO WORLD of…'")
    assert "HELLO WORLD" in page.text


def test_a_font_is_asked_once_a_document():
    one = lying_pdf(LINES, swapped("e", "t"))
    # A reader that reads just what the text layer says.
    reader = FakeReader([sample.text for font in facts_of(one)[1].doubtful for sample in font.samples])
    pdf = pymupdf.open(stream=one)
    for _ in range(3):
        pdf.fullcopy_page(0)
    document = ocria.parse(pdf.tobytes(), reader=reader)
    assert [page.route for page in document.pages] == ["text"] * 4
    assert len(reader.seen) == 1


def test_mode_text_never_asks():
    reader = FakeReader(["nothing"])
    assert ocria.parse(lying_pdf(LINES, swapped("3", "7")), reader=reader, mode="text").pages[0].route == "text"
    assert reader.seen == []


def test_a_page_model_is_not_asked_for_lines():
    reader = FakeReader(["nothing"], unit="page")
    assert ocria.parse(lying_pdf(LINES, swapped("3", "7")), reader=reader).pages[0].route == "text"
    assert reader.seen == []


def test_text_that_proves_itself_needs_no_model(born_digital):
    reader = FakeReader(["nothing"])
    assert {page.route for page in ocria.parse(born_digital, reader=reader).pages} == {"text"}
    assert reader.seen == []
