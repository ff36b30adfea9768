"""Drafts that are looked up: whose text a slot copies from, where it begins and ends, and when there is none."""

import pytest
import torch
from writing import JUNK, Writing

from ocria.spec.lookup import NGramLookup, TextLookup
from ocria.spec.reference import MOST_TOKENS
from ocria.spec.source import Admission

STOP = 777


@pytest.fixture
def numbers():
    """Different random texts, of which no two tokens are equal."""
    seed = torch.seed() % 2**31
    print("seed", seed)
    generator = torch.Generator().manual_seed(seed)

    def text(count: int) -> tuple[int, ...]:
        return tuple((torch.randperm(700, generator=generator)[:count]).tolist())

    return text


def test_every_slot_copies_its_own_guess_and_ends_it(numbers):
    writing = Writing(TextLookup(), 5, 60)
    texts = {1: numbers(20), 3: numbers(4), 4: numbers(11)}
    first = {1: 7, 3: 0, 4: 30}
    writing.source.admit([Admission(slot, first[slot], guess=texts[slot], stop_id=STOP) for slot in (3, 1, 4)])
    whole = {slot: [*text, STOP] for slot, text in texts.items()}
    for done in (0, 1, 3):
        rows = {slot: (first[slot], whole[slot][:done]) for slot in (4, 1, 3)}
        assert writing.drafts(rows) == [whole[slot][done : done + 8] for slot in (4, 1, 3)]
    for slot in texts:
        assert writing.steps(slot, first[slot], whole[slot]) == -(-len(whole[slot]) // 9)


def test_a_step_is_not_helped_by_what_is_not_known_yet(numbers):
    """The same drafts whatever lies in rows that are not committed, and in other slots."""
    text = numbers(20)
    answer = [*text[:6], 9001, *text[7:9]]
    found = []
    for junk in (JUNK, -1, text[3]):
        writing = Writing(TextLookup(), 3, 40)
        writing.history.fill_(junk)
        writing.source.admit([Admission(2, 5, guess=text, stop_id=STOP)])
        found.append([writing.drafts({2: (5, answer[:done])})[0] for done in range(len(answer) + 1)])
    assert found[0] == found[1] == found[2]
    assert found[0][-1] == list(text[9:17])


def test_slots_that_are_not_live_neither_draft_nor_move(numbers):
    text = numbers(20)
    writing = Writing(TextLookup(), 3, 40)
    writing.source.admit([Admission(slot, 5, guess=text) for slot in (1, 2)])
    elsewhere = list(text[10:14])
    assert writing.drafts({1: (5, elsewhere), 2: (5, elsewhere)}, dead=(1,)) == [[], list(text[14:20])]
    assert writing.source.references.offset.tolist() == [0, -6, 13 - 9]


def test_a_new_owner_finds_nothing_of_the_old_one(numbers):
    old, new = numbers(20), numbers(3)
    writing = Writing(TextLookup(), 2, 40)
    writing.source.admit([Admission(1, 2, guess=old, stop_id=STOP)])
    assert writing.drafts({1: (2, list(old[:12]))}) == [[*old[12:], STOP][:8]]
    writing.source.admit([Admission(1, 9, guess=new)])
    assert writing.drafts({1: (9, [])}) == [list(new)]
    writing.source.admit([Admission(1, 9)])
    assert writing.drafts({1: (9, [])}) == [[]]
    assert writing.drafts({1: (9, list(old[:3]))}) == [[]]
    writing.source.admit([Admission(1, 9, guess=(), stop_id=STOP)])
    assert writing.drafts({1: (9, [])}) == [[STOP]]


def test_after_a_restart_the_answer_goes_on(numbers):
    text = numbers(20)
    writing = Writing(TextLookup(), 2, 60)
    # 6 tokens of the answer are in the prompt of 11 now, the last of them in row 10.
    writing.source.admit([Admission(1, 10, chosen=6, guess=text, stop_id=STOP)])
    assert writing.drafts({1: (10, [])}) == [list(text[6:14])]
    assert writing.steps(1, 10, [*text[6:], STOP]) == 2


def test_a_guess_too_long_for_a_slot_is_cut(numbers):
    text = numbers(50)
    writing = Writing(TextLookup(), 2, 30)
    writing.source.admit([Admission(1, 2, guess=text, stop_id=STOP)])
    assert writing.drafts({1: (2, list(text[:26]))}) == [list(text[26:30])]


@pytest.mark.parametrize("max_len", [33, MOST_TOKENS + 100])
def test_the_memory_is_what_it_says(max_len):
    source = TextLookup()
    source.allocate(3, max_len, torch.device("cpu"))
    references = source.references
    held = sum(t.nbytes for t in (references.tokens, references.length, references.offset))
    assert held == 3 * source.bytes_per_slot(max_len)
    assert references.tokens.shape[1] <= MOST_TOKENS
    assert NGramLookup().bytes_per_slot(max_len) == 0


def test_what_was_written_before_is_written_again(numbers):
    row = list(numbers(7))
    writing = Writing(NGramLookup(), 4, 80)
    writing.source.admit([Admission(3, 4), Admission(1, 8)])
    table = [*row[:5], 1001, *row[:5], 1002, *row[:3]]
    assert writing.drafts({1: (8, row), 3: (4, table)}) == [[], [*row[3:5], 1002, *row[:3], *row[3:5]]]
    assert writing.drafts({3: (4, table)}, dead=(3,)) == [[]]
    assert writing.drafts({3: (4, [])}) == [[]]
    answer = (table[:12] * 5)[:55]
    assert writing.steps(3, 4, answer) < 25
