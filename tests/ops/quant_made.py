"""Random parts of quantised products, and memory full of NaN: for the tests of quantised ops."""

import secrets
from contextlib import contextmanager
from unittest import mock

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generator() -> torch.Generator:
    seed = secrets.randbelow(1 << 30)
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


def fp8(g: torch.Generator, *shape: int) -> torch.Tensor:
    """Any codes but NaN."""
    codes = torch.randint(0, 254, shape, generator=g, dtype=torch.uint8)
    return torch.where(codes >= 127, codes + 1, codes).view(torch.float8_e4m3fn).to(DEVICE)


def scales(g: torch.Generator, *shape: int) -> torch.Tensor:
    """Any positive e4m3 numbers and zero, subnormal ones too."""
    return torch.randint(0, 127, shape, generator=g, dtype=torch.uint8).view(torch.float8_e4m3fn).to(DEVICE)


def packed(g: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    return torch.randint(0, 256, (rows, columns // 2), generator=g, dtype=torch.uint8).to(DEVICE)


def uniform(g: torch.Generator, *shape: int) -> torch.Tensor:
    return (0.01 + torch.rand(shape, generator=g)).to(DEVICE)


def normal(g: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=g).to(dtype).to(DEVICE)


def codes_of(x: torch.Tensor) -> torch.Tensor:
    """Bytes, so that NaN equals NaN and -0 is not 0."""
    return x.contiguous().view(torch.uint8)


def assert_within(got: torch.Tensor, expected: torch.Tensor, sizes: torch.Tensor, columns: int) -> None:
    """Sums of `columns` products whose sizes together are `sizes`, in any order, against fp64: each of them, and three
    factors that follow, may be rounded in fp32; and the result once to its dtype."""
    allowed = (columns + 4) * 2.0**-23 * sizes
    if got.dtype == torch.bfloat16:
        allowed = allowed + 2.0**-8 * (expected.abs() + allowed)
    assert got.shape == expected.shape
    assert got.isfinite().all()
    assert bool(((got.double() - expected).abs() <= allowed).all())


def assert_near(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the order of fp32 sums; a sum may be far smaller than its terms, so the greatest is the measure."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-5 * expected.abs().max()


@contextmanager
def poisoned():
    """Every new memory holds NaN (or 255): what a kernel forgets to write shows."""
    plain = torch.Tensor.new_empty

    def poison(self, *shape, **options):
        x = plain(self, *shape, **options)
        x.view(torch.uint8).fill_(0xFF)
        return x

    with mock.patch.object(torch.Tensor, "new_empty", poison):
        yield
