"""Can the characters of a text layer be believed? Judged from the characters alone, without the pixels.

A text layer can lie: fonts without Unicode mappings give private-use characters, and a wrong mapping gives
a substitution cipher of the page (`KHOOR` for `HELLO`) that any count of letters accepts. Words of the
languages written in Latin letters share their letter pairs, so the mean cost of a pair in bits tells words
from ciphers: running text in 18 European languages and Indonesian costs 3.6 to 4.2 bits a pair, the same
text with its letters shifted at least 5.3.
"""

from __future__ import annotations

import re
import unicodedata

_ALPHABET = " abcdefghijklmnopqrstuvwxyz"

# -log2 p(next letter | letter) in whole bits, rows and columns in the order of _ALPHABET, blank for the word
# boundary. Counted over messages of free software in 18 languages (English with fourfold weight), accents
# folded away, each language normalised to the same total.
_PAIR_COST = (
    "945444556475554448544556977366557767675353769343668976537992999359378499367399949"
    "439693993375599299564599986339972989398696389667589988267556768686453979344779697"
    "349983599289599299465499979249982956388685589456499959329972999387697499684679979"
    "356454558775453469534759886429962899497476379856479997338893989484597399554489979"
    "338962878397477499955589968325982999399757449968599999249543648487786499943579968"
    "376557558686443759345556996439673988498497359365499969699999999999599999997096999"
    "238652868396756488655578967249593896395688459953589966239893994398798499465488968"
    "355665768575443759443778886429992999399895399768699959329873994298795389669799948"
    "247482798399969639983799768246575877576555359644777977327762988396664479876586946"
)
_COST = {
    first + second: int(_PAIR_COST[27 * i + j])
    for i, first in enumerate(_ALPHABET)
    for j, second in enumerate(_ALPHABET)
}

# No running text of 8 words came near 5 bits a pair except by chance of a few words.
_MOST_BITS = 5.0
_LEAST_LETTERS = 40
# A cipher is proven where undoing a shift of the alphabet gives ordinary words.
_WORDS_BITS = 4.5
_SHIFT_GAIN = 1.0
_LEAST_LETTERS_SHIFTED = 16

_MOST_BAD_CHARACTERS = 0.05
_SAMPLE = 4000


def distrust(text: str) -> str | None:
    """Why the characters of a text layer cannot be believed, or None.

    Args:
        text: the visible characters of one page.
    """
    characters = [c for c in text if not c.isspace()]
    if not characters:
        return None
    bad = sum(map(is_bad, characters)) / len(characters)
    if bad > _MOST_BAD_CHARACTERS:
        return f"{bad:.0%} of the text layer's characters have no meaning"
    words = latin_words(text)[:_SAMPLE]
    letters = sum(map(len, words))
    if letters >= _LEAST_LETTERS_SHIFTED:
        bits = pair_bits(words)
        if bits > _WORDS_BITS and bits - _best_shift_bits(words) > _SHIFT_GAIN:
            return "the text layer's letters are shifted"
    # Runs of capitals are often acronyms and codes, which cost as much as a cipher.
    words = [word for word in words if not word.isupper()]
    if sum(map(len, words)) >= _LEAST_LETTERS and pair_bits(words) > _MOST_BITS:
        return "the text layer's letters do not form words"
    return None


def is_bad(character: str) -> bool:
    """A replacement, private-use, unassigned or control character."""
    return character == "\ufffd" or unicodedata.category(character) in ("Co", "Cn", "Cc", "Cs")


def latin_words(text: str) -> list[str]:
    """Distinct words of 2 to 14 Latin letters, accents folded away, in order of appearance.

    Each counts once, so that a table of equal rows weighs no more than one of them; longer runs are rarely
    words.
    """
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return list(dict.fromkeys(re.findall(r"(?<![^\W_])[A-Za-z]{2,14}(?![^\W_])", folded)))


def pair_bits(words: list[str], shift: int = 0) -> float:
    """Mean cost of a letter pair in bits; `shift` moves every letter along the alphabet first."""
    total = pairs = 0
    for word in words:
        padded = f" {_shifted(word.lower(), shift)} "
        total += sum(_COST[padded[i : i + 2]] for i in range(len(padded) - 1))
        pairs += len(padded) - 1
    return total / max(pairs, 1)


def _shifted(word: str, shift: int) -> str:
    return "".join(_ALPHABET[1 + (ord(c) - 97 + shift) % 26] for c in word)


def _best_shift_bits(words: list[str]) -> float:
    return min(pair_bits(words[:400], shift) for shift in range(1, 26))


def is_latin(text: str) -> bool:
    """Whether it is a Latin letter, accents allowed, or a digit of Europe."""
    folded = unicodedata.normalize("NFKD", text)[:1]
    return folded.isascii() and folded.isalnum()
