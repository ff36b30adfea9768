"""What quantising did to a weight: the error, and rows that it wiped out."""

from dataclasses import dataclass

import torch

from ocria.quant.tensors import Weight


@dataclass(frozen=True, slots=True)
class Damage:
    """error: the root of the squared error over that of the squares, 0 for a weight of zeros. zeroed_rows: rows that
    were not zero and became so, each of them an output that is dead from now on."""

    error: float
    zeroed_rows: tuple[int, ...]


def measure(original: torch.Tensor, quantized: Weight) -> Damage:
    """Compare a weight `[N, K]` as the input meets it, in fp32, with the quantised one."""
    original, values = original.float(), quantized.dense()
    size = original.norm()
    error = (values - original).norm() / size if size > 0 else torch.zeros(())
    zeroed = ((original != 0).any(1) & ~(values != 0).any(1)).nonzero().flatten()
    return Damage(error.item(), tuple(zeroed.tolist()))
