"""Step metadata: torch form and kernel against a loop over rows, for every mix of rows."""

import pytest
import torch

from ocria.errors import EngineError
from ocria.ops.metadata import metadata

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = ("ids", "length", "folded", "count", "flush", "kv_rows", "cos", "sin")


def draw(seed, rows, widest, ring, max_len=23, slots=11, batch=9, rotary=6, table=19):
    """Slots in every state: decoding, verifying, prompt tails, done, near and at the end; padding at the end."""
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)

    def integers(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    pending = integers(1, 99, slots, widest)
    given = torch.where(integers(0, 2, slots) == 1, 1, integers(1, widest + 1, slots))
    drafted = (integers(-2, widest + 1, slots)).minimum(widest - given)
    length = integers(0, max_len + 1, slots)
    folded = (length - integers(0, max(ring, 1), slots)).clamp(min=0)
    rope_delta = integers(-8, 9, slots)
    done = integers(0, 4, slots) == 0
    cos, sin = torch.randn(2, table, rotary, generator=g)
    live = torch.randperm(slots - 1, generator=g)[: batch - 2] + 1
    chosen = torch.cat([live, torch.zeros(2, dtype=torch.int64)])
    return chosen, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len


def by_rows(slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len):
    batch, widest = len(slots), pending.shape[1]
    ids, kv_rows = torch.zeros(2, batch, rows, dtype=torch.int64)
    count, flush = torch.zeros(batch, dtype=torch.int64), torch.zeros(batch, dtype=torch.bool)
    turns = torch.zeros(2, batch, rows, cos.shape[1])
    for b, slot in enumerate(slots.tolist()):
        start = int(length[slot])
        if slot != 0 and not done[slot]:
            count[b] = min(int(given[slot]) + max(int(drafted[slot]), 0), rows, max_len - start)
            if count[b] and ring and start - int(folded[slot]) + rows + widest > ring:
                flush[b] = True
        for t in range(rows):
            if t < count[b]:
                ids[b, t] = pending[slot, t]
                kv_rows[b, t] = slot * max_len + start + t
            at = min(max(start + t + int(rope_delta[slot]), 0), len(cos) - 1)
            turns[0, b, t], turns[1, b, t] = cos[at], sin[at]
    return ids, length[slots], folded[slots], count, flush, kv_rows, *turns


def kernel(arguments):
    moved = (x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in arguments)
    return tuple(x.cpu() for x in metadata.kernel(*moved))


def same(got, expected):
    for name, ours, theirs in zip(NAMES, got, expected, strict=True):
        assert ours.dtype == theirs.dtype, name
        assert torch.equal(ours, theirs), name


@pytest.fixture
def poisoned(monkeypatch):
    """Memory that is not written holds NaN, or a number that no row has."""
    new_empty = torch.Tensor.new_empty

    def poison(self, *size, **options):
        made = new_empty(self, *size, **options)
        return made.fill_(torch.nan if made.is_floating_point() else True if made.dtype == torch.bool else -77)

    monkeypatch.setattr(torch.Tensor, "new_empty", poison)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    ("rows", "widest", "ring"), [(1, 1, 0), (1, 1, 1), (1, 1, 4), (1, 5, 16), (3, 5, 16), (5, 5, 16), (8, 8, 16)]
)
def test_forms_agree_bit_for_bit(rows, widest, ring):
    seed = torch.seed() % 2**32
    for i in range(6):
        arguments = draw(seed + i, rows, widest, ring)
        expected = by_rows(*arguments)
        same(metadata(*arguments), expected)
        same(kernel(arguments), expected)


def test_no_row_of_another_slot_and_no_negative_index():
    seed = torch.seed() % 2**32
    for i in range(200):
        arguments = draw(seed + i, rows=4, widest=4, ring=16)
        slots, _, given, drafted, length, *_, done = arguments[:8]
        max_len = arguments[-1]
        ids, start, _, count, _, kv_rows, *_ = metadata(*arguments)
        live = torch.arange(4) < count[:, None]
        owner = torch.where(live, slots[:, None], 0)
        assert torch.equal(kv_rows // max_len, owner)
        assert (kv_rows >= 0).all()
        assert (ids[live] > 0).all()
        assert (ids[~live] == 0).all()
        assert (start + count <= max_len).all()
        runs = (slots != 0) & ~done[slots] & (length[slots] < max_len)
        assert torch.equal(count >= 1, runs)
        assert (count <= given[slots] + drafted[slots].clamp(min=0)).all()


def test_a_wrong_mix_of_counters_makes_no_negative_count():
    """Slots whose length passed the end, which nothing should make, read and write nothing."""
    slots, pending, given, drafted, length, *rest = draw(5, 2, 2, 0)
    length[:] = 10**6
    got = metadata(slots, pending, given, drafted, length, *rest)
    assert not got[3].any()
    assert not got[5].any()
    same(kernel((slots, pending, given, drafted, length, *rest)), got)


@pytest.mark.parametrize("rows", [0, 4])
def test_a_window_wider_than_the_slots_is_refused(rows):
    arguments = (*draw(1, 3, 3, 0)[:10], rows, 0, 23)
    with pytest.raises(EngineError, match=f"{rows} rows"):
        metadata(*arguments)
    with pytest.raises(EngineError, match=f"{rows} rows"):
        kernel(arguments)


def test_registration():
    moved = tuple(x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in draw(3, 3, 4, 16))
    torch.library.opcheck(metadata.kernel, moved)


@pytest.mark.parametrize("form", [metadata.torch_form, metadata.kernel])
def test_compiles_as_one_graph(form):
    torch._dynamo.reset()
    arguments = draw(2, 3, 4, 16)
    device = DEVICE if form is metadata.kernel else "cpu"
    moved = tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in arguments)
    compiled = torch.compile(lambda *a: form(*a), fullgraph=True, backend="aot_eager")
    same([x.cpu() for x in compiled(*moved)], by_rows(*arguments))
