"""Scores against values counted by hand and against texts with a known number of random edits."""

import random
import string

import pytest

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

from scoring import (
    Score,
    char_edits,
    confusions,
    normalise,
    score,
    total_cer,
    total_wer,
    word_edits,
    word_f1,
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("“It’s”—he said", '"It\'s"-he said'),
        ("ﬁnd the ﬂow…", "find the flow..."),
        ("Congreſs", "Congress"),
        ("end-\nof line", "endof line"),
        ("com-  \n\n   mon", "common"),
        ("com‐\r\nmon", "common"),
        ("com\u00ad\nmon", "common"),
        ("a dash—\nand more", "a dash- and more"),  # a dash is no hyphen
        ("1990-\n95", "1990- 95"),  # digits are not parts of a broken word
        ("  a\t b\n\n c\u00a0d ", "a b c d"),
        ("Mixed CASE", "Mixed CASE"),
        ("−5 ′", "-5 '"),
        ("", ""),
    ],
)
def test_normalise(raw, expected):
    assert normalise(raw) == expected
    assert normalise(normalise(raw)) == normalise(raw)


def test_normalise_folds_case_only_when_asked():
    assert normalise("TOTAL Ünïts", lower=True) == "total ünïts"


def test_hand_counted_score():
    # kitten -> sitting: two substitutions and one insertion; "on" deleted: 3 characters with its space.
    result = score("the kitten sat on it", "the sitting sat it")
    assert (result.chars, result.char_edits) == (20, 6)
    assert (result.words, result.word_edits) == (5, 2)
    assert result.cer == pytest.approx(6 / 20)
    assert result.wer == pytest.approx(2 / 5)
    assert result.f1 == pytest.approx(2 * 3 / (5 + 4))


@pytest.mark.parametrize(
    ("truth", "output", "f1"),
    [
        ("", "", 1.0),
        ("a", "", 0.0),
        ("", "a", 0.0),
        ("a b c", "c b a", 1.0),  # order plays no part
        ("a a b", "a b b", 2 * 2 / 6),  # multisets, not sets
        ("a b c d", "a b", 2 * 2 / 6),
    ],
)
def test_word_f1(truth, output, f1):
    assert word_f1(truth, output) == pytest.approx(f1)


def test_empty_truth_and_empty_output():
    assert score("", "").cer == 0
    assert score("abc", "").cer == 1
    assert score("", "abc").cer == 3  # nothing to find, three characters invented


def test_totals_weigh_by_length():
    scores = [Score(100, 1, 20, 1, 0.9), Score(10, 5, 2, 1, 0.5)]
    assert total_cer(scores) == pytest.approx(6 / 110)
    assert total_wer(scores) == pytest.approx(2 / 22)
    assert total_cer([]) != total_cer([])  # nan: no item, no rate


def _edited(rng: random.Random, truth: str, edits: int) -> tuple[str, set[tuple[str, str]]]:
    """`truth` with substitutions and deletions far apart, by characters the truth does not have."""
    places = rng.sample(range(0, len(truth), 3), edits)
    out, made = list(truth), set()
    for place in places:
        replacement = rng.choice(["", *"0123456789"])
        made.add((truth[place], replacement))
        out[place] = replacement
    return "".join(out), made


@pytest.mark.parametrize("seed", range(8))
def test_known_number_of_random_edits(seed):
    rng = random.Random(seed)
    truth = "".join(rng.choices(string.ascii_letters, k=rng.randrange(61, 240)))
    edits = rng.randrange(1, 15)
    output, made = _edited(rng, truth, edits)
    # Foreign characters can only be edits; a deletion costs its own edit because the length must be made up.
    assert char_edits(truth, output) == edits
    counts = confusions(truth, output)
    assert counts.total() == edits
    foreign = {pair for pair in made if pair[1]}
    assert {pair[1] for pair in counts if pair[1]} == {digit for _, digit in foreign}


@pytest.mark.parametrize("seed", range(4))
def test_known_number_of_random_word_edits(seed):
    rng = random.Random(100 + seed)
    words = [f"w{number}" for number in range(rng.randrange(30, 60))]
    wrong = set(rng.sample(range(len(words)), rng.randrange(1, 9)))
    output = " ".join("zzz" if index in wrong else word for index, word in enumerate(words))
    assert word_edits(" ".join(words), output) == len(wrong)
    assert word_f1(" ".join(words), output) == pytest.approx(1 - len(wrong) / len(words))


def test_confusions_name_both_sides():
    assert confusions("Hello l", "Hel1o l!") == {("l", "1"): 1, ("", "!"): 1}
    assert confusions("abc", "ac") == {("b", ""): 1}
