"""`attend`: the torch form and the kernel against the definition, and that against SDPA and the rotary of prefill."""

import secrets
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F

from ocria.errors import EngineError
from ocria.ops.attend import attend, attend_op, attend_reference
from ocria.ops.register import force_kernels
from ocria.ops.rope import rotate

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-6
CLOSE = {"atol": 2e-5, "rtol": 2e-5}  # fp32: sums of up to 300 terms of size one in another order
BF16_CLOSE = {"atol": 2e-2, "rtol": 2e-2}  # q, k, the weights and the result each rounded to 8 bits


@dataclass
class Case:
    """Inputs of one call; `slots` of a cache with two more slots than requests."""

    qg: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    q_scale: torch.Tensor
    k_scale: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    slots: torch.Tensor
    length: torch.Tensor
    count: torch.Tensor

    @property
    def inputs(self) -> tuple:
        norms = (self.qg, self.k, self.v, self.q_scale, self.k_scale, EPS, self.cos, self.sin)
        return (*norms, self.keys, self.values, self.slots, self.length, self.count)

    @property
    def kv_len(self) -> int:
        return max(1, int((self.length + self.count).max()))

    def copy(self) -> "Case":
        return replace(self, keys=self.keys.clone(), values=self.values.clone())

    def only(self, b: int) -> "Case":
        """Request b alone."""
        names = ("qg", "k", "v", "cos", "sin", "slots", "length", "count")
        return replace(self.copy(), **{name: getattr(self, name)[b : b + 1] for name in names})

    def used(self) -> torch.Tensor:
        """bool `[B, T]`."""
        return torch.arange(self.qg.shape[1], device=self.qg.device) < self.count[:, None]

    def written(self) -> torch.Tensor:
        """bool `[slots, max_len]`."""
        mask = torch.zeros(self.keys.shape[:2], dtype=torch.bool)
        for slot, start, count in zip(self.slots.tolist(), self.length.tolist(), self.count.tolist(), strict=True):
            mask[slot, start : start + count] = True
        return mask.to(self.keys.device)


def make(
    seed: int, length: list[int], count: list[int], *, heads=4, kv_heads=2, dim=24, rotary=8, rows=3, max_len=40,
    dtype=torch.float32, unused=float("nan"),
) -> Case:  # fmt: skip
    """Rows beyond count hold NaN, cache rows beyond length hold `unused`; requests with count 0 are in slot 0."""
    print("seed", seed)
    torch.manual_seed(seed)
    batch = len(length)
    projected = torch.randn(batch, rows, heads * 2 * dim + 2 * kv_heads * dim).to(dtype)
    for b in range(batch):
        projected[b, count[b] :] = torch.nan
    # Parts of one wide product, as the projections leave them.
    qg, k, v = projected.to(DEVICE).split([heads * 2 * dim, kv_heads * dim, kv_heads * dim], dim=-1)
    angles = torch.randn(batch, rows, rotary // 2).repeat(1, 1, 2) * 3
    free = iter((torch.randperm(batch + 1) + 1).tolist())
    slots = [next(free) if c else 0 for c in count]
    keys, values = (torch.full((batch + 2, max_len, kv_heads, dim), unused, dtype=dtype) for _ in range(2))
    for slot, rows_held in zip(slots, length, strict=True):
        for cache in (keys, values):
            cache[slot, :rows_held] = torch.randn(rows_held, kv_heads, dim).to(dtype)
    case = Case(
        qg.unflatten(-1, (heads, -1)), k.unflatten(-1, (kv_heads, -1)), v.unflatten(-1, (kv_heads, -1)),
        1 + 0.3 * torch.randn(dim), 1 + 0.3 * torch.randn(dim), angles.cos(), angles.sin(), keys, values,
        torch.tensor(slots), torch.tensor(length), torch.tensor(count),
    )  # fmt: skip
    return Case(**{name: value.to(DEVICE) for name, value in vars(case).items()})


def run(form: str, case: Case, **known) -> torch.Tensor:
    """Changes the caches of the case."""
    known = {"first_slot": None, "full": False, "kv_rows": None, "mask": None, "kv_scale": None} | known
    function = attend_op.torch_form if form == "torch" else attend_op.kernel
    return function(*case.inputs, case.kv_len, *known.values())


def fresh_seed() -> int:
    return secrets.randbelow(1 << 30)


def bits(x: torch.Tensor) -> torch.Tensor:
    """As integers, so that NaNs compare."""
    return x.contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def check(form: str, case: Case, close: dict = CLOSE) -> None:
    """Output and caches are what the definition says; elsewhere no bit changes, but for slot 0 in the torch form."""
    expected, got, before = case.copy(), case.copy(), case.copy()
    reference = attend_reference(*expected.inputs)
    o = run(form, got)
    torch.testing.assert_close(o, reference, **close)  # of one shape and dtype
    assert not o[~case.used()].any()
    written = case.written()
    kept = ~written
    kept[0] = form == "kernel"
    torch.testing.assert_close(got.keys[written], expected.keys[written], **close)
    if got.keys.dtype == torch.bfloat16:
        # Rounded to nearest: by chance hardly a value differs, truncated half of them do.
        assert (got.keys[written] != expected.keys[written]).sum() <= 1 + 0.02 * got.keys[written].numel()
    assert torch.equal(got.values[written], expected.values[written])
    for name in ("keys", "values"):
        assert torch.equal(bits(getattr(got, name)[kept]), bits(getattr(before, name)[kept])), name


# The torch form may not meet NaN in the slots it reads; the kernel reads no row that the request does not hold.
FORMS = [pytest.param("torch", 0.5, id="torch"), pytest.param("kernel", float("nan"), id="kernel")]
SHAPES = {
    "one row, groups of 2": {"length": [7, 0, 31, 0], "count": [1, 1, 1, 0], "rows": 1},
    "no groups, small heads": {
        "length": [5, 0, 37], "count": [3, 2, 1], "heads": 2, "kv_heads": 2, "dim": 16, "rotary": 16,
    },
    "groups of 4, wide heads": {
        "length": [0, 11, 3, 0], "count": [5, 0, 4, 0], "rows": 5, "heads": 8, "kv_heads": 2, "dim": 64, "rotary": 32,
    },
    "full cache": {
        "length": [24, 39, 0], "count": [16, 1, 16], "rows": 16, "heads": 3, "kv_heads": 1, "rotary": 6,
    },
}  # fmt: skip


def plain_attention(case: Case) -> torch.Tensor:
    """Of pieces that `attend` does not use: fused norms, the rotary of prefill, SDPA over exactly the rows seen."""
    dim, group = case.k.shape[-1], case.qg.shape[2] // case.k.shape[2]
    out = torch.zeros_like(case.qg[..., :dim])
    for b, n in enumerate(case.count.tolist()):
        if n == 0:
            continue
        slot, start = int(case.slots[b]), int(case.length[b])
        cos, sin = case.cos[b, :n, None], case.sin[b, :n, None]
        q, gate = case.qg[b, :n].split(dim, dim=-1)
        q = rotate(F.rms_norm(q, (dim,), case.q_scale, EPS), cos, sin)
        k = rotate(F.rms_norm(case.k[b, :n], (dim,), case.k_scale, EPS), cos, sin)
        keys, values = torch.cat([case.keys[slot, :start], k]), torch.cat([case.values[slot, :start], case.v[b, :n]])
        keys, values = (x.transpose(0, 1).repeat_interleave(group, 0) for x in (keys, values))
        seen = torch.ones(n, start + n, dtype=torch.bool, device=q.device).tril(start)
        o = F.scaled_dot_product_attention(q.transpose(0, 1), keys, values, attn_mask=seen)
        out[b, :n] = o.transpose(0, 1) * torch.sigmoid(gate)
    return out.flatten(2)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_definition_is_norm_rotary_softmax_and_gate(shape):
    case = make(fresh_seed(), **shape)
    expected = plain_attention(case)
    torch.testing.assert_close(attend_reference(*case.copy().inputs), expected, **CLOSE)


@pytest.mark.parametrize(("form", "unused"), FORMS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_form_matches_definition(form, unused, shape):
    check(form, make(fresh_seed(), **shape, unused=unused))


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_lengths_at_the_borders_of_parts(form, unused):
    # The kernel gives parts of 128 keys or more to its programs, in turns of 64: one less, equal, one more.
    length, count = [126, 127, 191, 255, 256, 298], [1, 2, 2, 1, 2, 2]
    check(form, make(fresh_seed(), length, count, rows=2, heads=2, kv_heads=1, dim=16, max_len=300, unused=unused))


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_first_row_sees_nothing_of_a_part_that_later_rows_see(form, unused):
    # Keys 0..127 are the first part: of the second part rows 0 and 1 see no key, rows 2 and 3 do.
    case = make(fresh_seed(), [126, 126], [4, 2], rows=4, heads=2, kv_heads=1, dim=16, max_len=300, unused=unused)
    check(form, case)


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_bf16(form, unused):
    case = make(fresh_seed(), [9, 0, 140], [3, 1, 2], dim=32, max_len=200, dtype=torch.bfloat16, unused=unused)
    check(form, case, BF16_CLOSE)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's, of a closed gate
@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_gates_closed_and_open(form, unused):
    case = make(fresh_seed(), [9, 20], [3, 2], unused=unused)
    dim = case.k.shape[-1]
    case.qg[0, :, :, dim:], case.qg[1, :2, :, dim:] = -200.0, 200.0
    check(form, case)
    assert not run(form, case.copy())[0].any()


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_huge_scores_pick_one_key_and_equal_scores_share(form, unused):
    case = make(fresh_seed(), [9, 130], [3, 2], max_len=200, unused=unused)
    case.q_scale *= 1e18  # exp of any such score is inf or 0
    check(form, case)
    case.q_scale.zero_()  # every score is 0
    o, dim = run(form, case), case.k.shape[-1]
    slot, group = int(case.slots[1]), case.qg.shape[2] // case.k.shape[2]
    mean = case.values[slot, :131].mean(0).repeat_interleave(group, 0) * case.qg[1, 0, :, dim:].sigmoid()
    torch.testing.assert_close(o[1, 0], mean.flatten(), **CLOSE)


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_nan_stays_in_its_request(form, unused):
    case = make(fresh_seed(), [9, 0, 20], [3, 2, 1], unused=unused)
    clean = run(form, case.copy())
    case.qg[1, 0, 0, 0] = torch.nan
    o = run(form, case)
    assert o[1, 0].isnan().any()
    assert torch.equal(o[[0, 2]], clean[[0, 2]])
    assert torch.equal(o[1, 1], clean[1, 1])


@pytest.mark.parametrize(("form", "unused"), FORMS)
def test_window_is_its_rows_one_by_one(form, unused):
    case = make(fresh_seed(), [6, 33], [3, 2], unused=unused)
    window, steps = case.copy(), case.copy()
    whole = run(form, window)
    for t in range(3):
        names = ("qg", "k", "v", "cos", "sin")
        row = {name: getattr(case, name)[:, t : t + 1] for name in names}
        one = replace(steps, **row, length=case.length + t, count=(case.count > t).long())
        torch.testing.assert_close(run(form, one), whole[:, t : t + 1], **CLOSE)
    written = case.written()
    torch.testing.assert_close(steps.keys[written], window.keys[written], **CLOSE)
    assert torch.equal(steps.values[written], window.values[written])


def test_kernel_gives_a_request_the_same_bits_alone_and_in_a_batch():
    case = make(fresh_seed(), [129, 0, 63, 250], [2, 0, 1, 2], rows=2, max_len=300)
    together = case.copy()
    o = run("kernel", together)
    for b in range(4):
        alone = case.only(b)
        assert torch.equal(run("kernel", alone)[0], o[b]), b
        slot = int(case.slots[b])
        assert torch.equal(bits(alone.keys[slot]), bits(together.keys[slot]))


def test_what_the_host_knows_changes_no_bit():
    case = make(fresh_seed(), [7, 0, 12], [3, 3, 3], unused=0.5)
    case.slots = torch.tensor([1, 2, 3], device=DEVICE)
    rows = case.length[:, None] + torch.arange(3, device=DEVICE)
    beyond = torch.arange(case.kv_len, device=DEVICE) > rows[:, None, :, None]
    facts = {
        "first_slot": 1,
        "full": True,
        "kv_rows": case.slots[:, None] * case.keys.shape[1] + rows,
        "mask": torch.zeros(beyond.shape, device=DEVICE).masked_fill(beyond, float("-inf")),
    }
    plain = case.copy()
    o = run("torch", plain)
    for known in (*({name: fact} for name, fact in facts.items()), facts):
        got = case.copy()
        assert torch.equal(run("torch", got, **known), o), list(known)
        assert torch.equal(got.keys, plain.keys), list(known)
        assert torch.equal(got.values, plain.values), list(known)


def test_public_function_takes_the_form_of_the_device():
    case = make(fresh_seed(), [7, 0], [2, 1], unused=0.5)
    if DEVICE == "cuda":
        assert torch.equal(attend(*case.copy().inputs, case.kv_len), run("kernel", case.copy()))
        return
    assert torch.equal(attend(*case.copy().inputs, case.kv_len), run("torch", case.copy()))
    with force_kernels():
        assert torch.equal(attend(*case.copy().inputs, case.kv_len), run("kernel", case.copy()))


def test_kernel_refuses_what_it_cannot_do():
    case = make(fresh_seed(), [0], [17], rows=17)
    with pytest.raises(EngineError, match="17 rows"):
        run("kernel", case)
    case = make(fresh_seed(), [0], [2])
    with pytest.raises(EngineError, match="contiguous"):
        run("kernel", replace(case, keys=case.keys.transpose(1, 2).contiguous().transpose(1, 2)))


@pytest.mark.parametrize("max_len", [40, 200], ids=["one part", "two parts"])
def test_registration(max_len):
    case = make(fresh_seed(), [7, 0], [2, 1], rows=2, heads=2, kv_heads=1, dim=16, max_len=max_len, unused=0.5)
    torch.library.opcheck(attend_op.kernel, (*case.inputs, case.kv_len, None, False, None, None, None))


@pytest.mark.parametrize("form", ["torch", "kernel"])
def test_compiles_as_one_graph(form):
    case = make(fresh_seed(), [7, 0], [2, 1], rows=2, heads=2, kv_heads=1, dim=16, unused=0.5)
    compiled = torch.compile(lambda *inputs: run_inputs(form, inputs), fullgraph=True, backend="aot_eager")
    eager, traced = case.copy(), case.copy()
    torch.testing.assert_close(compiled(*traced.inputs), run(form, eager), **CLOSE)
    torch.testing.assert_close(traced.keys[1:], eager.keys[1:], **CLOSE)


def run_inputs(form: str, inputs: tuple) -> torch.Tensor:
    function = attend_op.torch_form if form == "torch" else attend_op.kernel
    return function(*inputs, 10, None, False, None, None, None)
