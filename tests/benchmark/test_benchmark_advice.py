"""What follows from measurements, made ones here."""

import random
from dataclasses import replace

import pytest
from benchmark_facts import MODEL, PAGE, group, recipe, report, speed, unequal

from ocria.benchmark.advice import advise, break_even_pages, clearly_faster
from ocria.benchmark.facts import BATCH, COMPILE, DRAFT, THREADS


def about(found, name):
    """The advice about one thing."""
    (piece,) = [piece for piece in advise(found)[0] if piece.about == name]
    return piece


def test_drafts_that_help_are_kept():
    piece = about(report(group(DRAFT, "auto", none=4.0, auto=2.0, own=3.0)), DRAFT)
    assert piece.option is None
    assert "2.00 times as fast as without" in piece.says


def test_drafts_that_cost_more_than_they_bring_are_switched_off():
    found = report(group(DRAFT, "auto", none=2.0, auto=3.0, own=2.6))
    assert about(found, DRAFT).option == "--draft none"
    assert advise(found)[1].endswith("Use: ocria parse --draft none.")


def test_another_drafter_that_is_faster_is_named():
    assert about(report(group(DRAFT, "auto", none=4.0, auto=3.0, own=2.0)), DRAFT).option == "--draft own"


def test_a_drafter_that_changes_answers_is_never_advised():
    speeds = [*group(DRAFT, "auto", none=4.0, auto=3.0), unequal(DRAFT, "own")]
    piece = about(report(speeds), DRAFT)
    assert piece.option is None
    assert "own: answers differ, so no speed" in piece.says


def test_no_advice_where_the_base_itself_gave_other_answers():
    speeds = [replace(unequal(DRAFT, "auto"), base=True), speed(DRAFT, "none", 2.0)]
    assert DRAFT not in {piece.about for piece in advise(report(speeds))[0]}


@pytest.mark.parametrize(
    ("ratios", "clear"),
    [
        ((1.04, 1.04), False), ((1.06, 1.07), True), ((1.3, 0.99, 1.3), False),
        ((1.3,), False), ((1.6,), True), ((), False),
    ],
)  # fmt: skip
def test_a_gain_counts_that_every_turn_shows(ratios, clear):
    assert clearly_faster(replace(speed(DRAFT, "own", 1.0), ratios=ratios)) is clear


def test_the_smallest_batch_that_is_as_good_is_advised():
    speeds = group(BATCH, "64", **{"1": 8.0, "8": 3.0, "32": 2.05, "64": 2.4, "128": 2.0})
    assert about(report(speeds), BATCH).option == "--batch 32"


def test_the_batch_as_it_is_stays_where_none_is_clearly_better():
    speeds = group(BATCH, "64", **{"1": 8.0, "32": 1.98, "64": 2.0})
    assert about(report(speeds), BATCH).option is None


def test_fewer_threads_where_more_are_in_each_other_s_way():
    speeds = group(THREADS, "8", **{"1": 4.0, "4": 2.0, "8": 3.0})
    assert about(report(speeds), THREADS).option == "--threads 4"


def test_compiling_pays_from_the_page_on_that_makes_up_for_it():
    """3 s saved on 2 pages: 1.5 s a page; 20 s take 14 of them."""
    off, on = speed(COMPILE, "off", 5.0, True), speed(COMPILE, "on", 2.0, times=2.5, once_s=20.0, cached=False)
    assert break_even_pages(off, on) == 14
    found = report([off, on])
    assert about(found, COMPILE).option == "--compile for more than 14 pages"
    assert "made anew" in about(found, COMPILE).says
    assert advise(found)[1].endswith("Use: ocria parse --compile for more than 14 pages.")


def test_break_even_is_the_first_page_that_is_not_slower():
    numbers = random.Random(random.randrange(1 << 30))
    for _ in range(200):
        slow, saved, once = numbers.uniform(1, 9), numbers.uniform(0.01, 0.9), numbers.uniform(0, 100)
        off, on = speed(COMPILE, "off", slow, True), speed(COMPILE, "on", slow - saved, times=2.0, once_s=once)
        pages = break_even_pages(off, on)
        assert pages * off.page_s >= pages * on.page_s + once - 1e-6
        assert pages == 1 or (pages - 1) * off.page_s < (pages - 1) * on.page_s + once + 1e-6


def test_compiling_that_saves_nothing_is_left_off():
    off, on = speed(COMPILE, "off", 2.0, True), speed(COMPILE, "on", 2.5, times=0.8, once_s=20.0)
    assert break_even_pages(off, on) is None
    assert about(report([off, on]), COMPILE).option is None
    assert about(report([off, unequal(COMPILE, "on", 3)]), COMPILE).says.startswith("compiled steps gave 3 other")


def test_what_holds_for_long_runs_alone_stands_last():
    speeds = [speed(COMPILE, "off", 5.0, True), speed(COMPILE, "on", 2.0, times=2.5, once_s=3.0, cached=True)]
    speeds += group(DRAFT, "auto", none=2.0, auto=3.0) + group(THREADS, "8", **{"4": 2.0, "8": 3.0})
    verdict = advise(report(speeds))[1]
    assert verdict.endswith("Use: ocria parse --draft none --threads 4 --compile for more than 2 pages.")


def test_on_a_cpu_a_recipe_is_a_smaller_file():
    piece = about(report(recipes=[recipe("fp8", 10_000_000), recipe("nvfp4", 6_000_000)]), "recipe")
    assert piece.option is None
    assert "smaller file here (6.0 MB by nvfp4)" in piece.says


def test_on_a_gpu_a_recipe_is_bounded_by_its_bytes_and_said_not_to_be_measured():
    found = report(recipes=[recipe("fp8", 8_000_000), recipe("nvfp4", 6_000_000)], model=replace(MODEL, device="cuda"))
    piece = about(found, "recipe")
    assert "at most 2.0 times" in piece.says
    assert "not measured" in piece.says
    assert "--recipe fp8" in piece.option
    assert "quantize" not in advise(found)[1], "what was not measured is not in the verdict"


def test_where_the_model_does_not_fit_the_least_change_that_does_is_named():
    sizes = [recipe("nvfp4", 3 << 30), recipe("fp8", 5 << 30, fits=False), recipe("nvfp4-mlp+fp8", 4 << 30)]
    found = report(recipes=sizes, model=None, page=None)
    assert "nvfp4-mlp+fp8 is the least change that fits" in about(found, "recipe").says
    assert advise(found)[1] == "The model does not fit into the memory of this machine."
    none = report(recipes=[recipe("fp8", 5 << 30, fits=False)], model=None, page=None)
    assert about(none, "recipe").option is None


def test_the_verdict_tells_the_pace_in_words():
    assert advise(report())[1] == "This machine reads about 30 pages a minute with toy. Options were not compared."
    compared = report(group(DRAFT, "auto", none=4.0, auto=2.0))
    assert advise(compared)[1].endswith("No option that was compared is better.")
    slow = report(page=replace(PAGE, seconds=(45.0,)))
    assert "a page in about 45 seconds" in advise(slow)[1]
    cut = report(page=replace(PAGE, seconds=(45.0,), cut=True))
    assert "more than 45 s" in advise(cut)[1]
    assert advise(report(page=None, model=None))[1] == "Nothing was measured."
