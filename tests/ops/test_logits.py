"""Searches of kernels in a row of logits, against sorting it."""

import pytest
import torch
import triton
import triton.language as tl

from ocria.ops.fixed import weight
from ocria.ops.kernels import logits as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHUNK = 64


@triton.jit
def search_kernel(
    logits, highest, limit, out, V, CHUNKS, WEIGHED: tl.constexpr, CHUNK: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK_C)
    top = tl.max(tl.load(highest + row * CHUNKS + c, c < CHUNKS, -float("inf")))
    logits += row * V
    highest += row * CHUNKS
    floor = kernels.lowest(
        logits, highest, top, tl.load(limit + row), 1.0, V, CHUNKS, WEIGHED, CHUNK, BLOCK_C
    )
    tl.store(out + row, floor)


def lowest(logits, limit, weighed):
    rows, vocab = logits.shape
    chunks = triton.cdiv(vocab, CHUNK)
    padded = torch.nn.functional.pad(logits, (0, chunks * CHUNK - vocab), value=-torch.inf)
    highest = padded.view(rows, chunks, CHUNK).amax(2)
    out = torch.full((rows,), torch.nan, device=DEVICE)
    search_kernel[(rows,)](
        logits.to(DEVICE), highest.to(DEVICE), limit.to(DEVICE), out, vocab, chunks,
        WEIGHED=weighed, CHUNK=CHUNK, BLOCK_C=triton.next_power_of_2(chunks),
    )  # fmt: skip
    return out.cpu()


def kept(logits, limit, weighed):
    """The definition: which logits have less than the limit above them. The largest ones in any case."""
    value = weight(logits.amax(1, keepdim=True) - logits) if weighed else torch.ones_like(logits, dtype=torch.int64)
    higher = logits[:, None, :] > logits[:, :, None]
    less = (value[:, None] * higher).sum(2).double() < limit[:, None]
    return less | ~higher.any(2)


def rows(g):
    """Of every shape: peaked, flat, with ties, huge, tiny, around zero, and down to the lowest number there is."""
    x = torch.randn(10, 150, generator=g)
    x[1] *= 12
    x[2] = (x[2] * 2).round()
    x[3] = 1.5
    x[4] *= 1e37
    x[5] *= 1e-42
    x[6, 4:] = -torch.finfo().max
    x[7] = torch.nextafter(torch.ones(150), torch.full((150,), 2.0)) if x[7, 0] > 0 else torch.ones(150)
    x[7, ::2] = 1.0
    x[8] = -torch.rand(150, generator=g).log() * 20
    x[9] = torch.where(x[9] > 0, x[9] * 1e-30, x[9])
    return x


@pytest.mark.parametrize("weighed", [False, True])
def test_lowest(weighed):
    seed = torch.seed() % 2**32
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)
    x = rows(g)
    share = torch.rand(len(x), generator=g).double()
    whole = weight(x.amax(1, keepdim=True) - x).sum(1).double() if weighed else torch.full((len(x),), 150.0).double()
    for limit in (share * whole, share.pow(6) * whole, torch.where(share < 0.5, 0.0, whole + 1)):
        most = limit if weighed else limit.ceil()
        floor = lowest(x, most, weighed)
        assert torch.equal(x >= floor[:, None], kept(x, most, weighed)), most.tolist()
