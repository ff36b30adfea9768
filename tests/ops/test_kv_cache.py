"""Caches of keys and values in FP8: what they hold, and attention over what they hold."""

import secrets

import pytest
import test_attend as plain
import torch
import torch.nn.functional as F

from ocria.ops import kv_cache
from ocria.ops.attend import attend_op, attend_reference
from ocria.ops.rope import rotate

FP8 = torch.float8_e4m3fn
SHAPES = {
    "one row": {"length": [7, 0, 31, 0], "count": [1, 1, 1, 0], "rows": 1},
    "several parts": {"length": [126, 0, 250], "count": [3, 2, 1], "dim": 16, "rotary": 16, "max_len": 300},
    "wide heads": {"length": [0, 11], "count": [5, 4], "rows": 5, "heads": 8, "kv_heads": 2, "dim": 64, "rotary": 32},
}


def make(dtype: torch.dtype, unused: float = 0.5, **shape) -> tuple[plain.Case, torch.Tensor]:
    """A case with FP8 caches, and scales that make the largest numbers saturate."""
    case = plain.make(secrets.randbelow(1 << 30), **shape, dtype=dtype, unused=unused)
    scale = torch.tensor([0.003, 0.007], device=plain.DEVICE)  # the largest number is 1.3 of keys, 3.1 of values
    case.keys, case.values = (
        kv_cache.encode(cache, step, FP8) for cache, step in zip((case.keys, case.values), scale, strict=True)
    )
    return case, scale


def over_cache(case: plain.Case, scale: torch.Tensor) -> torch.Tensor:
    """Attention of the rows over what the caches hold already, in fp32; unused rows are zeros."""
    dim, group = case.k.shape[-1], case.qg.shape[2] // case.k.shape[2]
    out = torch.zeros_like(case.qg[..., :dim])
    for b, n in enumerate(case.count.tolist()):
        if n == 0:
            continue
        slot, total = int(case.slots[b]), int(case.length[b]) + n
        q, gate = case.qg[b, :n].float().split(dim, dim=-1)
        q = F.rms_norm(q, (dim,), case.q_scale, plain.EPS)
        q = rotate(q, case.cos[b, :n, None], case.sin[b, :n, None]).to(case.qg.dtype).float()
        keys, values = (
            (cache[slot, :total].float() * step).transpose(0, 1).repeat_interleave(group, 0)
            for cache, step in zip((case.keys, case.values), scale, strict=True)
        )
        seen = torch.ones(n, total, dtype=torch.bool, device=q.device).tril(total - n)
        o = F.scaled_dot_product_attention(q.transpose(0, 1), keys, values, attn_mask=seen)
        out[b, :n] = (o.transpose(0, 1) * torch.sigmoid(gate)).to(out.dtype)
    return out.flatten(2)


@pytest.mark.parametrize("form", ["torch", "kernel", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_attention_over_codes(form, dtype, shape):
    case, scale = make(dtype, unused=float("nan") if form == "kernel" else 0.5, **shape)
    got, expected = case.copy(), case.copy()
    attend_reference(*expected.inputs, kv_scale=scale)
    o = attend_reference(*got.inputs, kv_scale=scale) if form == "reference" else plain.run(form, got, kv_scale=scale)
    written = case.written()
    # Sums in another order may cross a border between two codes; a value of bf16 lies on one in 16 such borders.
    for mine, theirs in ((got.keys, expected.keys), (got.values, expected.values)):
        mine, theirs = mine[written].view(torch.uint8).int(), theirs[written].view(torch.uint8).int()
        different = mine != theirs
        assert different.sum() <= 2 + 0.02 * different.numel()
        assert ((mine - theirs).abs()[different] == 1).all()
    assert got.keys[written].float().abs().max() == 448  # beyond it they saturate
    close = plain.CLOSE if dtype == torch.float32 else plain.BF16_CLOSE
    torch.testing.assert_close(o, over_cache(got, scale), **close)
    kept = ~written
    kept[0] = form != "torch"
    for name in ("keys", "values"):
        before, after = (getattr(x, name)[kept].view(torch.uint8) for x in (case, got))
        assert torch.equal(before, after), name


def test_what_the_host_knows_changes_no_bit():
    case, scale = make(torch.float32, length=[7, 0, 12], count=[3, 3, 3])
    case.slots = torch.tensor([1, 2, 3], device=plain.DEVICE)
    rows = case.length[:, None] + torch.arange(3, device=plain.DEVICE)
    known = {"first_slot": 1, "full": True, "kv_rows": case.slots[:, None] * case.keys.shape[1] + rows}
    one, other = case.copy(), case.copy()
    assert torch.equal(plain.run("torch", one, kv_scale=scale), plain.run("torch", other, kv_scale=scale, **known))
    assert torch.equal(one.keys.view(torch.uint8), other.keys.view(torch.uint8))


def test_registration_and_compiling():
    case, scale = make(
        torch.float32, length=[7, 0], count=[2, 1], rows=2, heads=2, kv_heads=1, dim=16,
    )  # fmt: skip
    known = (None, False, None, None, scale)
    compiled = torch.compile(lambda *inputs: attend_op.torch_form(*inputs, 10, *known), fullgraph=True)
    eager, traced = case.copy(), case.copy()
    torch.testing.assert_close(
        compiled(*traced.inputs), attend_op.torch_form(*eager.inputs, 10, *known), atol=2e-2, rtol=2e-2
    )  # a key on the border of two codes may differ by a step
    seen = torch.compile(lambda *inputs: attend_op.kernel(*inputs, 10, *known), fullgraph=True, backend="aot_eager")
    again = case.copy()
    assert torch.equal(seen(*again.inputs), plain.run("kernel", case.copy(), kv_scale=scale))


def test_rows_are_what_their_codes_say():
    x, step = torch.randn(5, 3, 8) * 100, torch.tensor(0.25)
    codes = kv_cache.encode(x, step, FP8)
    torch.testing.assert_close(kv_cache.decode(codes, step, torch.float32), x.clamp(-112, 112), rtol=2**-4, atol=2**-11)
    for dtype in (torch.float32, torch.bfloat16):
        assert torch.equal(kv_cache.decode(kv_cache.encode(x, None, dtype), None, dtype), x.to(dtype))
    cache = torch.zeros(2, 5, 3, 8).to(FP8)
    kv_cache.write(cache, torch.tensor([7, 0]), codes[:2])
    assert torch.equal(cache[1, 2].float(), codes[0].float())
    assert torch.equal(cache[0, 0].float(), codes[1].float())
    assert not cache.float().view(10, -1)[[1, 2, 3, 4, 5, 6, 8, 9]].any()
