"""Several sources in a chain: who is asked, who is believed, what is remembered."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ocria.spec.chain import NONE, Chain, Verified
from ocria.spec.source import Admission, Drafts, Seen

CPU = torch.device("cpu")


class Fixed:
    """Proposes `tokens` and says that `count` of them are drafts; both by slot."""

    def __init__(self, name, count, prior=0.8, taps=(), ids=None, probability=None):
        self.name, self.count, self.prior, self.taps = name, count, prior, taps
        self.ids, self.probability = ids, probability
        self.asked, self.rows_of_context = 0, []

    def allocate(self, slots, max_len, device):
        self.tokens = torch.randint(0, 1000, (slots, 63))

    def bytes_per_slot(self, max_len):
        return 10 * max_len

    def admit(self, admissions):
        self.admitted = [a.slot for a in admissions]

    def propose(self, seen):
        self.asked += 1
        count = torch.as_tensor(self.count)[seen.slots]
        return Drafts(self.tokens[seen.slots, : seen.rows - 1], count, self.ids, self.probability)

    def extend(self, features, position, slots, start, count):
        self.rows_of_context.append((slots.tolist(), start.tolist(), count.tolist()))


def seen_of(chain, slots, rows=8, live=None):
    slots = torch.tensor(slots)
    zeros = torch.zeros_like(slots)
    return Seen(
        slots=slots,
        first_slot=None,
        live=slots > 0 if live is None else torch.tensor(live),
        anchor=zeros,
        length=zeros + 5,
        position=zeros,
        first=chain.first[slots],
        history=chain.history,
        temperature=zeros.float(),
        seed=zeros,
        greedy=True,
        exact=True,
        rows=rows,
        kv_len=5 + rows,
    )


def outcome(slots, source, drafted, accepted, features=None, ids=None, kv_rows=None):
    slots, source, drafted, accepted = map(torch.tensor, (slots, source, drafted, accepted))
    ids = torch.zeros(len(slots), 1, dtype=torch.int64) if ids is None else ids
    kv_rows = torch.zeros_like(ids) if kv_rows is None else kv_rows
    return Verified(slots, slots * 0, drafted, accepted, accepted + 1, source, ids, kv_rows, features, ids)


def made(*sources, slots=5, max_len=32):
    chain = Chain(sources, 8)
    chain.allocate(slots, max_len, CPU)
    chain.admit([Admission(slot, first=slot) for slot in range(1, slots)])
    return chain


def test_the_longer_of_two_drafts_that_are_as_good_is_taken_and_the_first_of_equal_ones():
    a, b = Fixed("a", [0, 3, 7, 0, 0]), Fixed("b", [0, 7, 3, 2, 0])
    chain = made(a, b)
    proposed = chain.propose(seen_of(chain, [1, 2, 3, 4, 0]), network=True)
    assert proposed.source.tolist() == [1, 0, 1, NONE, NONE]
    assert proposed.drafts.count.tolist() == [7, 7, 2, 0, 0]
    for row, (slot, source) in enumerate([(1, b), (2, a), (3, b)]):
        assert torch.equal(proposed.drafts.tokens[row], source.tokens[slot, :7])
    same = made(Fixed("a", [4] * 5), Fixed("b", [4] * 5))
    assert same.propose(seen_of(same, [1, 2]), network=True).source.tolist() == [0, 0]


def test_slots_that_are_not_live_have_no_drafts():
    chain = made(Fixed("a", [7] * 5), Fixed("b", [7] * 5))
    proposed = chain.propose(seen_of(chain, [1, 2, 0], live=[True, False, False]), network=True)
    assert proposed.source.tolist() == [0, NONE, NONE]
    assert proposed.drafts.count.tolist() == [7, 0, 0]


def test_each_slot_follows_the_source_that_serves_it():
    """One slot's failures are not another's, and a source that failed may come back."""
    chain = made(Fixed("a", [7] * 5, prior=0.9), Fixed("b", [7] * 5, prior=0.7))
    assert chain.propose(seen_of(chain, [1, 2]), network=True).source.tolist() == [0, 0]
    for _ in range(12):
        chain.verified(outcome([1, 2], [0, 0], [7, 7], [0, 7]))
    assert chain.propose(seen_of(chain, [1, 2]), network=True).source.tolist() == [1, 0]
    for _ in range(12):
        chain.verified(outcome([1], [1], [7], [0]))
        chain.verified(outcome([1], [0], [7], [7]))
    assert chain.propose(seen_of(chain, [1, 2]), network=True).source.tolist() == [0, 0]


def test_a_new_owner_begins_with_the_priors():
    chain = made(Fixed("a", [7] * 5, prior=0.9), Fixed("b", [7] * 5, prior=0.7))
    before = chain.held[1].clone(), chain.missed[1].clone()
    for _ in range(5):
        chain.verified(outcome([1], [0], [7], [0]))
    assert not torch.equal(chain.held[1], before[0])
    chain.admit([Admission(1, first=17)])
    assert torch.equal(chain.held[1], before[0])
    assert torch.equal(chain.missed[1], before[1])
    assert chain.first[1] == 17


def test_a_step_without_drafts_teaches_nothing():
    chain = made(Fixed("a", [7] * 5), Fixed("b", [7] * 5))
    before = chain.held.clone(), chain.missed.clone()
    chain.verified(outcome([1, 2], [NONE, 0], [0, 0], [0, 0]))
    assert torch.equal(chain.held[1:], before[0][1:])
    assert torch.equal(chain.missed[1:], before[1][1:])


def test_the_network_is_left_out_where_it_is_not_asked_and_extended_all_the_same():
    text, network = Fixed("text", [2] * 5), Fixed("network", [7] * 5, taps=(0, 1))
    chain = made(text, network)
    assert (chain.taps, chain.has_network, chain.has_text) == ((0, 1), True, True)
    assert chain.propose(seen_of(chain, [1, 2]), network=False).source.tolist() == [0, 0]
    assert network.asked == 0
    assert chain.propose(seen_of(chain, [1, 2]), network=True).source.tolist() == [1, 1]
    chain.verified(outcome([1, 2], [0, 0], [2, 2], [1, 2], features=torch.zeros(2, 1, 4)))
    assert network.rows_of_context == [([1, 2], [0, 0], [2, 3])]
    assert text.rows_of_context == []
    alone = made(network)
    nothing = alone.propose(seen_of(alone, [1, 2], rows=4), network=False)
    assert nothing.source.tolist() == [NONE, NONE]
    assert nothing.drafts.tokens.shape == (2, 3)


def test_tokens_are_remembered_by_row_and_rejected_ones_overwritten():
    chain = made(Fixed("a", [7] * 5), max_len=16)
    ids = torch.tensor([[7, 8, 9], [4, 0, 0]])
    rows = torch.tensor([[16 + 3, 16 + 4, 16 + 5], [32 + 1, 0, 0]])
    chain.verified(outcome([1, 2], [0, NONE], [2, 0], [1, 0], ids=ids, kv_rows=rows))
    again = torch.tensor([[6, 5, 0]])
    chain.verified(outcome([1], [0], [1], [1], ids=again, kv_rows=torch.tensor([[16 + 5, 16 + 6, 0]])))
    assert chain.history[1, 3:7].tolist() == [7, 8, 6, 5]
    assert chain.history[2, 1] == 4


def test_drafts_of_different_kinds_agree_on_what_they_are_from():
    """A draft that was the only one possible has all probability itself, beside one that was drawn from several."""
    ids, probability = torch.randint(0, 1000, (2, 7, 3)), torch.rand(2, 7, 3)
    certain, drawn = Fixed("text", [0, 7, 0, 0, 0]), Fixed("net", [0, 0, 7, 0, 0], ids=ids, probability=probability)
    chain = made(certain, drawn)
    drafts = chain.propose(seen_of(chain, [1, 2]), network=True).drafts
    assert drafts.ids.shape == drafts.probability.shape == (2, 7, 3)
    assert torch.equal(drafts.ids[0, :, 0], drafts.tokens[0])
    assert torch.equal(drafts.probability[0], torch.tensor([1.0, 0.0, 0.0]).expand(7, 3))
    assert torch.equal(drafts.ids[1], ids[1])
    assert torch.equal(drafts.probability[1], probability[1])


class NothingFromTheHost(TorchDispatchMode):
    """Refuses tensors made of Python numbers: on CUDA each is a copy that a captured graph cannot hold."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten.lift_fresh.default, "a constant of the host inside a step"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("network", [True, False])
def test_a_step_makes_no_tensors_of_numbers(network):
    chain = made(Fixed("a", [3] * 5), Fixed("b", [5] * 5, taps=(0,)), Fixed("c", [2] * 5))
    for source in chain.sources:
        source.count = torch.tensor(source.count)
    seen = seen_of(chain, [1, 3, 0])
    result = outcome([1, 3, 0], [0, 2, NONE], [3, 2, 0], [1, 2, 0], features=torch.zeros(3, 1, 4))
    with pytest.raises(AssertionError, match="a constant"), NothingFromTheHost():
        torch.tensor([1, 2])
    for source in chain.sources:
        source.extend = lambda *rows: None
    with NothingFromTheHost():
        proposed = chain.propose(seen, network)
        chain.verified(result)
    assert proposed.source.tolist() == ([1, 1, NONE] if network else [0, 0, NONE])


@pytest.mark.parametrize("rows", [2, 8])
def test_the_step_of_a_chain_is_one_graph(rows):
    """No break, no host read: what is proposed and learnt runs inside a captured step."""
    chain = made(Fixed("a", [3] * 5), Fixed("b", [5] * 5))
    for source in chain.sources:
        source.count = torch.tensor(source.count)
    slots = torch.tensor([1, 3, 0])

    def whole(seen, result):
        proposed = chain.propose(seen, True)
        chain.verified(result)
        return proposed.source, proposed.drafts.tokens

    seen, result = seen_of(chain, [1, 3, 0], rows=rows), outcome([1, 3, 0], [0, 1, NONE], [3, 5, 0], [1, 5, 0])
    expected = chain.propose(seen, True)
    held = chain.held.clone()
    source, tokens = torch.compile(whole, fullgraph=True, backend="aot_eager")(seen, result)
    assert torch.equal(source, expected.source)
    assert torch.equal(tokens, expected.drafts.tokens)
    assert not torch.equal(held[slots[:2]], chain.held[slots[:2]])
