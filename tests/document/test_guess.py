"""Guesses from the text layer: which words belong to which line, how they are written, and how they reach a request."""

import itertools

import numpy as np
import pymupdf
import pytest
from made import PARAGRAPH, FakeReader, draw_lines, scan_pdf
from PIL import Image

import ocria
from ocria.document.geometry import turn_back
from ocria.document.guess import Word, as_written, line_guesses, page_guess, split_guess, turned_words
from ocria.document.reader import Reader, ReadText
from ocria.document.source import open_source
from ocria.train.charset import CHARSET, fold, in_charset

LINES = ["The first line of the page is here", "and the second line follows it", "with a third one to end it"]


def put(lines, turn=0, hidden=False, under=None):
    """Bytes of a page with these lines, displayed turned clockwise by `turn` degrees; `under`: an image beneath."""
    pdf = pymupdf.open()
    page = pdf.new_page(width=595, height=842)
    if under is not None:
        page.insert_image(page.rect, stream=scan_png(under))
    for row, line in enumerate(lines):
        page.insert_text((58, 68 + 29 * row), line, fontsize=14, render_mode=3 if hidden else 0)
    page.set_rotation(turn)
    return pdf.tobytes()


def scan_png(pixels):
    import io

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def guesses_of(content, **options):
    reader = FakeReader(["read from the pixels"], **options)
    document = ocria.parse(content, mode="model", reader=reader)
    assert "read from the pixels" in document.markdown
    return reader.guesses[-1], document.pages[0]


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_every_line_gets_its_own_words_whichever_way_the_page_lies(turn):
    guesses, page = guesses_of(put(PARAGRAPH, turn))
    assert guesses == [line.strip() for line in PARAGRAPH]
    assert page.rotation == -turn % 360
    assert len(page.lines) == 3


def test_a_hidden_reading_of_a_scan_is_a_guess():
    content = put(LINES, hidden=True, under=draw_lines(LINES))
    guesses, page = guesses_of(content)
    assert guesses == LINES
    assert page.route == "model"


def test_pages_without_a_text_layer_have_no_guess():
    guesses, _ = guesses_of(scan_pdf(draw_lines(LINES)))
    assert guesses == [None] * 3


def test_a_text_layer_that_is_known_to_lie_is_none():
    shifted = ["".join(chr((ord(c) - 94) % 26 + 97) if c.isalpha() else c for c in line.lower()) for line in LINES]
    guesses, _ = guesses_of(put(shifted))
    assert guesses == [None] * 3


def test_a_page_reader_gets_the_whole_text_in_the_order_of_the_file():
    pdf = pymupdf.open()
    page = pdf.new_page(width=612, height=792)
    page.insert_textbox((72, 300, 500, 400), "The second block, which stands first in the file.", fontsize=12)
    for row, line in enumerate(PARAGRAPH):
        page.insert_text((72, 140 + 14 * row), line, fontsize=12)
    guesses, _ = guesses_of(pdf.tobytes(), unit="page")
    paragraph = (
        "The harbour master kept a ledger of every ship that called at the port, with the date, the cargo and the "
        "captain's name, and he never let a well-known vessel pass."
    )
    assert guesses == [f"The second block, which stands first in the file.\n\n{paragraph}"]


def test_probing_which_way_up_a_page_is_gives_no_guesses():
    """The reading of a sample that may be upside down must not be helped by what the page says."""
    reader = FakeReader([ReadText("x", 0.5, "ok", 1, 1)])
    capitals = [line.upper() for line in LINES] * 3
    ocria.parse(put(capitals), mode="model", reader=reader)
    assert len(reader.guesses) > 1
    assert reader.guesses[:-1] == [None] * (len(reader.guesses) - 1)
    assert reader.guesses[-1] == capitals


def test_words_stand_on_the_displayed_page():
    page = open_source(put(["Alpha beta"], turn=90)).page(1)
    words = page.words()
    assert [word.text for word in words] == ["Alpha", "beta"]
    assert words[0].line == words[1].line
    shown = page.render(72).min(axis=2) < 128
    rows, columns = (np.flatnonzero(shown.any(axis)) for axis in (1, 0))
    x0, y0, x1, y1 = np.array([word.box for word in words]).T
    assert x0.min() - 1 <= columns[0] <= columns[-1] <= x1.max() + 1
    assert y0.min() - 1 <= rows[0] <= rows[-1] <= y1.max() + 1
    assert open_source(scan_png(draw_lines(LINES))).page(1).words() == []


def test_a_word_in_two_boxes_belongs_to_the_nearer_line():
    places = {"low": (30, 14, 40, 26), "high": (10, 2, 20, 14), "out": (90, 2, 99, 9)}
    words = [Word(text, place, (0, 0)) for text, place in places.items()]
    assert line_guesses(words, [(0, 0, 80, 16), (0, 10, 80, 30), (0, 40, 80, 50)]) == ["high", "low", None]
    assert line_guesses([], [(0, 0, 80, 16)]) == [None]
    assert line_guesses(words, []) == []
    assert page_guess([]) is None


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_turning_words_undoes_turning_back(turned):
    box = tuple(np.random.default_rng().uniform(0, 100, 4))
    size = (300.0, 200.0) if turned in (0, 180) else (200.0, 300.0)  # of the turned page
    (word,) = turned_words([Word("x", turn_back(box, turned, 300.0, 200.0), (0, 0))], turned, *size)
    assert word.box == pytest.approx(box)


def test_a_guess_is_written_as_the_model_writes():
    assert as_written("ﬁnd\u00a0the\u2009oﬃce  e\u0301tude ") == "find the office étude"
    assert as_written("co\xadope\xadrate exam\xad") == "cooperate exam-"
    assert as_written("1990\u22122000, 3\u20105") == "1990–2000, 3-5"
    assert as_written(CHARSET) == fold(CHARSET)
    looks = [c for c in map(chr, range(0xA0, 0x2FFF)) if fold(c) not in ("", c) and in_charset(fold(c))]
    assert len(looks) > 10
    for character in looks:
        assert as_written(character) == fold(character), hex(ord(character))


def test_a_split_line_has_its_guess_split_between_words():
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"
    for widths in ([400, 400], [300, 310, 290], [1, 2000], [100] * 9):
        pieces = split_guess(text, widths)
        assert len(pieces) == len(widths)
        assert " ".join(piece for piece in pieces if piece) == text
        if len(set(widths)) > 1 or len(widths) < 4:
            assert len(pieces[0] or "") == pytest.approx(len(text) * widths[0] / sum(widths), abs=5)
    assert split_guess("word", [9, 9]) == ["word", None] or split_guess("word", [9, 9]) == [None, "word"]
    assert split_guess(None, [9, 9]) == [None, None]


class Engine:
    """Ends every request at once, and keeps it."""

    def __init__(self):
        self.requests = []

    def stream(self, requests):
        self.requests += requests
        return iter(())

    def tick(self):
        return None


def test_guesses_reach_the_requests_and_pieces_share_theirs(monkeypatch):
    monkeypatch.setattr("ocria.document.reader.Reader.__init__", lambda self: None)
    reader = Reader()
    reader.unit, reader._engine, reader._prompt, reader._ids = "line", Engine(), "p", itertools.count()
    reader._opinion = None
    reader._timeout_s, reader._tick_interval_s = None, 1.0
    words = [f"w{i:03d}" for i in range(120)]
    long = draw_lines([" ".join(words)], size=(9000, 44), font_size=26, top=6)[:, 100:]
    long = long[:, : np.flatnonzero((long < 128).any(0))[-1] + 9]
    short = draw_lines(["word"], size=(300, 44), font_size=26, top=6)[:, 100:]
    broken = np.zeros((0, 30), np.uint8)
    reading = reader.stream([long, broken, short, short], [" ".join(words), "lost", "word", None])
    with pytest.raises(KeyError):  # no result comes of this engine
        list(reading)
    *pieces, one, other = reader._engine.requests
    assert (one.guess, other.guess) == ("word", None)
    assert len(pieces) > 1
    assert " ".join(piece.guess for piece in pieces).split() == words
    # Where a piece ends on the paper, its share of the words ends, but for a word and the white that pads a piece.
    widths = np.cumsum([piece.images[0].shape[1] for piece in pieces])
    counts = np.cumsum([len(piece.guess.split()) for piece in pieces])
    assert np.abs(counts / 120 - widths / widths[-1]).max() < 0.05
