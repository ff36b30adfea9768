"""The text layer is judged by its characters."""

import random

import pytest

from ocria.document.trust import distrust, latin_words, pair_bits

ENGLISH = (
    "The keeper of the lighthouse climbed the stairs each evening with a can of oil and a rag, and when the "
    "weather was clear he could count the lamps of eleven villages along the shore before he lit his own."
)
OTHERS = {
    "German": "Der Wächter stieg jeden Abend die Treppe hinauf und zählte die Lichter der Dörfer an der Küste.",
    "French": "Chaque soir le gardien montait l'escalier et comptait les lumières des villages de la côte.",
    "Polish": "Każdego wieczoru latarnik wchodził po schodach i liczył światła wiosek wzdłuż wybrzeża.",
    "Finnish": "Joka ilta majakanvartija nousi portaat ylös ja laski rannikon kylien valot ennen omaansa.",
    "Greek": "Κάθε βράδυ ο φύλακας ανέβαινε τη σκάλα και μετρούσε τα φώτα των χωριών της ακτής.",
    "numbers": "1,204.50 88.31 -4 000 17.2% 2024-05-31 9:45 3/7 12 kg 4.5 mm 0x7f",
    "tickers": "AAPL NVDA MSFT XOM QCOM TTL SQL HTTP XML GDPR BGB HGB XKCD QRS TLS SSH",
}


def shifted(text, by):
    return "".join(
        chr((ord(c) - base + by) % 26 + base) if c.isascii() and c.isalpha() else c
        for c in text
        for base in [65 if c.isupper() else 97]
    )


def test_running_text_is_trusted():
    assert distrust(ENGLISH) is None


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_languages_and_tables_are_trusted(text):
    assert distrust(text) is None


@pytest.mark.parametrize("by", range(1, 26))
def test_every_shift_of_the_alphabet_is_caught(by):
    assert "shifted" in distrust(shifted(ENGLISH, by))


def test_a_short_shifted_text_is_caught():
    assert distrust("KHOOR ZRUOG SODLQ\nvhfrqg olqh ri zrugv") is not None


def test_random_substitutions_are_caught():
    caught = 0
    for seed in range(20):
        alphabet = list("abcdefghijklmnopqrstuvwxyz")
        random.Random(seed).shuffle(alphabet)
        table = str.maketrans("abcdefghijklmnopqrstuvwxyz", "".join(alphabet))
        caught += distrust(ENGLISH.lower().translate(table)) is not None
    # A permutation may by chance map vowels to vowels; nearly all must be seen.
    assert caught >= 18


def test_meaningless_characters_are_caught():
    assert "no meaning" in distrust("\ue000\ue001 \ufffd\ufffd abc \x03\x04")
    assert distrust("A page with one stray sign \ue000 in a hundred or so letters of ordinary text.") is None


def test_shifts_cost_more_than_words():
    words = latin_words(ENGLISH)
    assert pair_bits(words) < 4.5 < min(pair_bits(words, by) for by in range(1, 26))


def test_no_text_is_no_lie():
    assert distrust("") is None
    assert distrust(" \n ") is None
