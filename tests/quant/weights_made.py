"""Weights that are drawn afresh, and those that quantisers trip over."""

import torch


def random_weight(rng: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=rng) * 10 ** uniform(rng, -4, 2)


def nasty_weights(rng: torch.Generator, rows: int = 24, columns: int = 160) -> dict[str, torch.Tensor]:
    """Finite matrices by what is wrong with them."""
    plain = torch.randn(rows, columns, generator=rng)
    holes = plain.clone()
    holes[3], holes[5, 16:48], holes[7, :16] = 0, 0, -0.0
    outlier = plain.clone()
    outlier[1, 5] = 1e4
    spread = plain * torch.exp(4 * torch.randn(rows, 1, generator=rng))
    return {
        "plain": plain,
        "bf16": plain.bfloat16(),
        "holes": holes,
        "zeros": torch.zeros(rows, columns),
        "minus zeros": -torch.zeros(rows, columns),
        "one outlier": outlier,
        "rows of all sizes": spread,
        "subnormal": plain * 1e-40,
        "tiny": plain * 1e-36,
        "huge": plain.clamp(-3, 3) * 1e38,
        "on the grid": torch.randint(-6, 7, (rows, columns), generator=rng).float(),
        "halfway": torch.randint(-24, 25, (rows, columns), generator=rng).float() / 4,
    }


def uniform(rng: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * torch.rand((), generator=rng).item()


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal to the bit, the sign of zero included."""
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])
