"""Random numbers: published answers, noise against its formula in fp64, and the same bits from kernels."""

import shutil

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from scipy import stats

from ocria.ops import fixed
from ocria.ops.kernels import fixed as kernels
from ocria.ops.philox import ACCEPT, RESIDUAL, SAMPLE, gumbel_noise, philox, uniform, window_keys

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOP = 2**32

# Known answers of Random123's `philox4x32 10`: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((TOP - 1,) * 4, (TOP - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@triton.jit
def fixed_kernel(words, distances, out_noise, out_log, out_weight, N: tl.constexpr):
    i = tl.arange(0, N)
    word = tl.load(words + i).to(tl.uint32)
    tl.store(out_noise + i, kernels.gumbel(word))
    tl.store(out_log + i, kernels.log_share(tl.maximum(word, 1)))
    tl.store(out_weight + i, kernels.weight(tl.load(distances + i)))


@triton.jit
def noise_kernel(seed, position, out, first, N: tl.constexpr, STREAM: tl.constexpr):
    tl.store(out + tl.arange(0, N), kernels.noise(tl.load(seed), tl.load(position), first, N, STREAM))


@triton.jit
def uniform_kernel(seed, position, out, N: tl.constexpr, STREAM: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, kernels.uniform(tl.load(seed), tl.load(position + i), STREAM))


def words(count, seed):
    """Random words with all ends of the two branches among them."""
    print("seed", seed)
    edges = [torch.arange(400) + start for start in (0, 2**31 - 200, TOP - 400)]
    powers = 2 ** torch.arange(32)
    drawn = torch.randint(0, TOP, (count,), generator=torch.Generator().manual_seed(seed))
    return torch.cat([*edges, powers, powers - 1, drawn])[:count]


def distances(count, seed):
    g = torch.Generator().manual_seed(seed)
    near = torch.rand(count // 2, generator=g) * 1e-3
    far = torch.rand(count - count // 2 - 5, generator=g) * 40
    return torch.cat([near, far, torch.tensor([0.0, 30.999, 31.0, 100.0, torch.inf])])


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    answer = philox(tuple(map(torch.tensor, key)), tuple(map(torch.tensor, counter)))
    assert tuple(map(int, answer)) == expected


def test_noise_is_the_formula():
    w = words(300_000, torch.seed() % 2**32)
    v = (w.numpy().astype(np.float64) + 0.5) / TOP
    assert 0 < v.min() < v.max() < 1
    rest = (TOP - 0.5 - w.numpy().astype(np.float64)) / TOP  # 1 - v, of which fp64 loses nothing here
    exact = -np.log(np.where(v < 0.5, -np.log1p(-v), -np.log(rest)))
    noise = fixed.gumbel(w)
    assert noise.isfinite().all()
    # 1e-7 of the fixed-point polynomials, and half a unit in the last place of an fp32 number.
    assert (np.abs(noise.numpy() - exact) <= 1e-7 + np.abs(exact) * 2.0**-24).all()


def test_weights_are_exponentials():
    seed = torch.seed() % 2**32
    print("seed", seed)
    d = distances(100_000, seed)
    exact = torch.exp(-d.double())
    error = (fixed.weight(d).double() / 2**fixed.WEIGHT_BITS - exact).abs()
    assert (error <= 5e-8 * exact + 2.0**-fixed.WEIGHT_BITS).all()
    assert fixed.weight(torch.zeros(1)) == 2**fixed.WEIGHT_BITS
    down = fixed.weight(d.sort().values)
    assert (down.diff() <= 0).all(), "a farther token must not weigh more"


def test_logs_of_shares():
    w = words(100_000, torch.seed() % 2**32).clamp(min=1)
    exact = (w.double() / TOP).log()
    assert ((fixed.log_share(w).double() - exact).abs() <= 3e-8 + exact.abs() * 2.0**-24).all()


def test_kernels_give_the_same_bits():
    seed = torch.seed() % 2**32
    count = 2**14
    w, d = words(count, seed), distances(count, seed)
    noise, logs = torch.full((2, count), torch.nan, device=DEVICE)
    weights = torch.full((count,), -1, device=DEVICE)
    fixed_kernel[(1,)](w.to(DEVICE), d.to(DEVICE), noise, logs, weights, N=count)
    assert torch.equal(noise.cpu(), fixed.gumbel(w))
    assert torch.equal(logs.cpu(), fixed.log_share(w.clamp(min=1)))
    assert torch.equal(weights.cpu(), fixed.weight(d))


@pytest.mark.parametrize("stream", [SAMPLE, RESIDUAL])
@pytest.mark.parametrize("position", [0, 1, 2**32 - 1, 2**32, 2**62 + 12345])
def test_noise_of_a_block_is_that_of_its_columns(position, stream):
    g = torch.Generator().manual_seed(torch.seed() % 2**32)
    seed = torch.randint(-(2**63), 2**63 - 1, (1,), generator=g)
    print("seed", seed)
    place = torch.tensor([position])
    out = torch.full((64,), torch.nan, device=DEVICE)
    noise_kernel[(1,)](seed.to(DEVICE), place.to(DEVICE), out, 128, N=64, STREAM=stream)
    assert torch.equal(out.cpu(), gumbel_noise(seed, place, 1001, stream)[0, 128:192])


def test_uniform_numbers():
    """Those of the kernel; between 0 and 1; and uniform, by Kolmogorov-Smirnov
    over seeds and positions, with a false alarm once in ten million runs."""
    start = torch.seed() % 2**40
    print("seed", start)
    seed, position = torch.tensor([start - 2**39]), window_keys(torch.arange(5, 69).expand(1, 64))
    out = torch.full((64,), torch.nan, dtype=torch.float64, device=DEVICE)
    uniform_kernel[(1,)](seed.to(DEVICE), position[0].to(DEVICE), out, N=64, STREAM=ACCEPT)
    assert torch.equal(out.cpu(), uniform(seed, position, ACCEPT)[0])
    many = start + torch.arange(50_000)
    for numbers in (uniform(many, seed, ACCEPT), uniform(seed, many, ACCEPT)):
        assert 0 < numbers.min() < numbers.max() < 1
        assert stats.kstest(numbers.numpy(), "uniform").pvalue > 3e-8


def test_no_two_windows_share_a_key():
    position = torch.randint(0, 2**32 - 40, (1,)) + torch.arange(40)
    keys = window_keys(position[:, None] + torch.arange(32))
    assert keys.unique().numel() == keys.numel()
    streams = torch.stack([gumbel_noise(keys[:, 0], keys[:, 1], 40, stream) for stream in range(4)])
    # In one run of four a pair of floats meets by chance; streams that share a key would be equal in 40.
    assert streams.unique().numel() > streams.numel() - 20


def test_noise_depends_on_seed_position_and_column_alone():
    seeds, positions = torch.tensor([5, 5, 5 + 2**32, -5, 5]), torch.tensor([1, 2, 1, 1, 1 + 2**32])
    together = gumbel_noise(seeds, positions, 203)
    for i in range(5):
        alone = gumbel_noise(seeds[i : i + 1], positions[i : i + 1], 97)
        assert torch.equal(together[i, :97], alone[0])
        for j in range(i):
            assert not (together[i] == together[j]).any(), "streams share numbers"
    assert together.unique().numel() == together.numel()


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_compiled_code_gives_the_same_bits():
    """C++ compilers assume that integers do not overflow, and Inductor has index arithmetic of its own."""
    torch._dynamo.reset()
    seed = torch.seed() % 2**32
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)
    seeds, positions = torch.randint(-(2**63), 2**63 - 1, (2, 9), generator=g)
    def numbers(seeds, positions):
        keys = window_keys(positions[:, None] % 2**31 + torch.arange(7))
        return gumbel_noise(seeds, positions, 64), uniform(seeds[:, None], keys, ACCEPT), keys

    compiled = torch.compile(numbers, fullgraph=True)
    for got, expected in zip(compiled(seeds, positions), numbers(seeds, positions), strict=True):
        assert torch.equal(got, expected)


def test_noise_has_the_gumbel_distribution():
    """Kolmogorov-Smirnov over seeds, over positions and over columns; a false alarm once in ten million runs."""
    seed = torch.seed() % 2**31
    print("seed", seed)
    many = torch.arange(50_000) + seed
    here = torch.full_like(many, seed)
    one = here[:1]
    for noise in (gumbel_noise(many, here, 1), gumbel_noise(here, many, 1), gumbel_noise(one, one, 50_000)):
        assert stats.kstest(noise.flatten().numpy(), stats.gumbel_r.cdf).pvalue > 3e-8
