"""The tables of the accuracy bench: places line up with the truth and lose no edit."""

import random
import string
from collections import Counter

import pytest

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

from report import (
    Reading,
    confusion_counts,
    confusion_table,
    group_table,
    places,
    summary,
    worst_places,
    worst_words,
)


def reading(truth, output, group="books", name="page", seconds=1.0):
    return Reading(group, name, truth, output, seconds)


@pytest.mark.parametrize("seed", range(10))
def test_places_cover_both_texts_and_all_edits(seed):
    rng = random.Random(seed)
    truth = " ".join("".join(rng.choices(string.ascii_lowercase, k=rng.randrange(1, 12))) for _ in range(120))
    output = list(truth)
    for _ in range(rng.randrange(0, 40)):
        place = rng.randrange(len(output))
        output[place] = rng.choice(["", "#", "##", output[place] + "%"])
    item = reading(truth, "".join(output))
    found = places(item, width=rng.randrange(20, 90))
    assert sum(place.edits for place in found) == item.score.char_edits
    assert "".join(place.truth for place in found).replace(" ", "") == truth.replace(" ", "")
    assert "".join(p.output for p in found).replace(" ", "") == "".join(output).replace(" ", "")


def test_place_of_an_error_shows_its_line():
    first, second, third = "the quick brown fox", "jumps over the lazy", "dog and sleeps on"
    item = reading(f"{first} {second} {third}", f"{first} jumqs over the 1azy {third}")
    found = places(item, width=20)
    assert [(place.truth, place.output, place.edits) for place in found] == [
        (first, first, 0),
        (second, "jumqs over the 1azy", 2),
        (third, third, 0),
    ]


@pytest.mark.parametrize(("truth", "output"), [("", ""), ("", "abc"), ("abc", ""), ("x" * 200, "x" * 199)])
def test_places_of_odd_texts(truth, output):
    item = reading(truth, output)
    assert sum(place.edits for place in places(item)) == item.score.char_edits


def test_worst_places_are_sorted_and_skip_perfect_items():
    items = [
        reading("abcdef", "abcdef", group="lines", name="right"),
        reading("abcdef", "abcxef", group="lines", name="one"),
        reading("abcdef", "xyzdef", group="lines", name="three"),
        reading("a b", "c d", group="receipts", name="no order"),
    ]
    assert [(place.name, place.edits) for place in worst_places(items, 9)] == [("three", 3), ("one", 1)]
    assert len(worst_places(items, 1)) == 1


def test_worst_words():
    item = reading("TOTAL 12.00 CASH", "total 12.O0 cash", group="receipts")
    ((name, f1, missed, made_up),) = worst_words([item, reading("a", "b")], 5)
    assert (name, missed, made_up) == ("page", ["12.00"], ["12.o0"])
    assert f1 == pytest.approx(2 / 3)


def test_summary_and_table():
    rows = summary([reading("ab cd", "ab cd", seconds=1), reading("abcde fghij", "abcde fghix", seconds=4)])
    assert rows["items"] == 2
    assert rows["cer"] == pytest.approx(1 / 16)
    assert rows["cer_median"] == pytest.approx(1 / 22)
    assert rows["seconds_mean"] == 2.5
    table = group_table({"books": {"ocria": rows, "tesseract": rows}}, ["ocria", "tesseract"])
    assert len(table) == 4
    assert "6.25%" in table[2]


def test_confusion_counts_leave_out_groups_without_order():
    items = [reading("aab", "aaxc"), reading("q", "w", group="receipts")]
    counts = confusion_counts(items)
    assert counts.total() == 2
    assert all(pair != ("q", "w") for pair in counts)
    table = confusion_table(Counter({("l", "1"): 3, ("a", ""): 2, ("", "."): 1, ("o", "0"): 1}))
    assert table[0].split() == ["read", "as", "(4)", "missed", "(2)", "made", "up", "(1)"]
    assert "'l' → '1'" in table[1]
    assert "'o' → '0'" in table[2]
