"""Damaged PDFs: pages neither vanish nor change their numbers, and odd boxes do not stop the others."""

import random

import pymupdf
import pytest
from fuzz_corpus import hand_made
from made import FakeReader

import ocria
from ocria.document.source import open_source
from ocria.errors import InputError

CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
FONT = b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
BOX = b"/MediaBox[0 0 200 200]"


def page(contents, parent=2, more=BOX):
    return b"<</Type/Page/Parent %d 0 R%s/Contents %d 0 R%s>>" % (parent, more, contents, FONT)


def words(text):
    return b"", b"BT /F1 9 Tf 20 30 Td (%s and other words to fill up a line) Tj ET" % text


def tree(entries):
    """Page ONE is object 3, page THREE object 5; object 4 is a stream, 99 is missing."""
    return hand_made(
        CATALOG, b"<</Type/Pages" + entries + b">>", page(4), words(b"ONE"), page(6), words(b"THREE"),
        b"<</Type/Pages/Kids[3 0 R 5 0 R]/Count 2/Parent 2 0 R>>", b"<</Type/Pages/Kids[5 0 R]/Count 7/Parent 2 0 R>>",
    )  # fmt: skip


def told(content):
    document = ocria.parse(content, mode="text")
    assert [page.index for page in document.pages] == list(range(1, document.page_count + 1))
    return [page.text.split()[0] if page.status == "ok" else page.status for page in document.pages]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (b"/Kids[3 0 R null 5 0 R]/Count 3", ["ONE", "failed", "THREE"]),
        (b"/Kids[3 0 R 99 0 R 5 0 R]/Count 3", ["ONE", "failed", "THREE"]),
        (b"/Kids[3 0 R 17 5 0 R]/Count 3", ["ONE", "failed", "THREE"]),
        (b"/Kids[3 0 R 4 0 R 5 0 R]/Count 3", ["ONE", "failed", "THREE"]),
        (b"/Kids[null 3 0 R 5 0 R]/Count 3", ["failed", "ONE", "THREE"]),
        (b"/Kids[3 0 R 5 0 R null]/Count 3", ["ONE", "THREE", "failed"]),
        (b"/Kids[3 0 R 2 0 R 5 0 R]/Count 3", ["ONE", "failed", "THREE"]),
        (b"/Kids[3 0 R null 5 0 R]/Count 2", ["ONE", "failed", "THREE"]),
        (b"/Kids[3 0 R 5 0 R]/Count 9", ["ONE", "THREE"]),
        (b"/Kids[3 0 R 5 0 R]/Count 1", ["ONE", "THREE"]),
        (b"/Kids[3 0 R 5 0 R]/Count -4", ["ONE", "THREE"]),
        (b"/Kids[3 0 R 5 0 R]/Count 2147483647", ["ONE", "THREE"]),
        (b"/Kids[3 0 R 5 0 R]", ["ONE", "THREE"]),
        (b"/Kids[3 0 R 8 0 R]/Count 2", ["ONE", "THREE"]),
        (b"/Kids[7 0 R 3 0 R]/Count 3", ["ONE", "THREE", "ONE"]),
        (b"/Kids<<>>/Count 3", ["ONE", "THREE"]),
        (b"/Count 3", ["ONE", "THREE"]),
        (b"/Kids[]/Count 0", ["ONE", "THREE"]),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_every_entry_of_the_page_tree_is_a_page(entries, expected):
    assert told(tree(entries)) == expected


def test_a_wrong_count_is_a_repaired_file():
    assert open_source(tree(b"/Kids[3 0 R 5 0 R]/Count 1")).repaired
    assert not open_source(tree(b"/Kids[3 0 R 5 0 R]/Count 2")).repaired


def test_a_file_without_any_page_is_refused():
    with pytest.raises(InputError, match="page"):
        open_source(hand_made(CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"))


@pytest.mark.parametrize(
    ("boxes", "size"),
    [
        (b"/MediaBox[0 0 0 0]", (612, 792)),
        (b"/MediaBox[200 300 0 0]", (200, 300)),
        (b"/MediaBox[-50 -60 150 240]", (200, 300)),
        (b"/MediaBox[0 0 200 300]/CropBox[500 500 900 900]", (200, 300)),
        (b"/MediaBox[0 0 200 300]/CropBox[10 10 900 900]", (190, 290)),
        (b"/MediaBox[700 800 900 1100]/CropBox[0 0 300 300]", (200, 300)),
        (b"/MediaBox[0 0 200 300]/CropBox[0 0 0 0]", (200, 300)),
        (b"/MediaBox[0 0 200 300]/UserUnit 2", None),
        (b"/MediaBox[0 0 200 300]/Rotate 90", (300, 200)),
        (b"/MediaBox[0 0 200 300]/Rotate 45", None),
        (b"/MediaBox[0 0 (a) /b]", None),
        (b"/MediaBox[0 0 1e9 1e9]", None),
        (b"/MediaBox[0 0 200]", None),
        (b"", None),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_odd_boxes(boxes, size):
    """The page keeps its place whatever its boxes say, also where they are inherited, and the next one is read."""
    own = (page(5, more=boxes), b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>")
    inherited = (page(5, more=b""), b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2%s>>" % boxes)
    for first, root in (own, inherited):
        content = hand_made(CATALOG, root, first, page(5), words(b"ODD"))
        document = ocria.parse(content, mode="text")
        assert [page.index for page in document.pages] == [1, 2]
        assert document.pages[1].text.startswith("ODD")
        if size is not None:
            assert (document.pages[0].width, document.pages[0].height) == size
        by_pixels = ocria.parse(content, mode="model", reader=FakeReader(["read"], unit="page"), pages=[1])
        assert by_pixels.pages[0].status in ("ok", "blank", "failed")


def test_pages_of_random_glyphs():
    """Nonsense is no reason to fail."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    with pymupdf.open() as pdf:
        for _ in range(6):
            sheet = pdf.new_page()
            for _ in range(60):
                text = "".join(chr(draw.choice((draw.randint(33, 126), draw.randint(161, 383)))) for _ in range(40))
                place = draw.uniform(0, 500), draw.uniform(10, 780)
                sheet.insert_text(place, text, fontsize=draw.uniform(3, 30), rotate=draw.choice((0, 90, 180, 270)))
        content = pdf.tobytes()
    document = ocria.parse(content, reader=FakeReader(["read"]))
    assert [page.index for page in document.pages] == list(range(1, 7))
    assert document.status == "ok"


def test_either_password_opens_and_an_owners_alone_asks_for_none():
    with pymupdf.open(stream=hand_made(CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page(4), words(b"ONE"))) as pdf:
        for kind in (pymupdf.PDF_ENCRYPT_RC4_128, pymupdf.PDF_ENCRYPT_AES_128, pymupdf.PDF_ENCRYPT_AES_256):
            both = pdf.tobytes(encryption=kind, user_pw="user's", owner_pw="öwner")
            for password in ("user's", "öwner"):
                assert open_source(both, password).page(1).words()[0].text == "ONE"
            owners = pdf.tobytes(encryption=kind, owner_pw="öwner", permissions=0)
            assert told(owners) == ["ONE"]
