"""Batches of blocks from shards. Batch number i depends on the seed, i and the shards alone, so that a run that was
stopped goes on as if it had not been."""

from functools import cache
from pathlib import Path

import torch

from ocria.errors import UsageError
from ocria.train.drafter.blocks import Blocks, draw_blocks
from ocria.train.drafter.data import Answer, read_shard

_MULTIPLE = 16  # contexts are padded to so many rows, so that few shapes occur


class Feed:
    """`blocks`: about so many in a batch, one from every `stride` tokens of output. A share `shorter` of the batches
    has blocks of fewer rows than `block_size`: a drafter that always saw the same number of masks is lost without some
    of them, and an engine may ask for few drafts. Shards that come later are seen at the next `look`. Raises
    UsageError for a folder without shards."""

    def __init__(
        self, folder: Path, blocks: int, block_size: int, seed: int, stride: int = 8, shorter: float = 0.0
    ):
        self.folder, self.blocks, self.block_size, self.seed, self.stride = folder, blocks, block_size, seed, stride
        self.shorter = shorter
        self.shards: list[Path] = []
        self._groups = cache(self._read)
        self.look()

    def look(self) -> None:
        self.shards = sorted(self.folder.glob("shard-*.safetensors"))
        if not self.shards:
            raise UsageError(f"no shards in {self.folder}", cure="Run python -m ocria.train.drafter.collect first.")

    def batch(self, number: int) -> Blocks:
        """Neighbours by length from one shard, and anchors in them, all drawn anew for each number."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        shard = int(torch.randint(len(self.shards), (), generator=generator))
        groups = self._groups(self.shards[shard])
        answers, count = groups[int(torch.randint(len(groups), (), generator=generator))]
        rows = self.block_size
        if self.block_size > 2 and float(torch.rand((), generator=generator)) < self.shorter:
            rows = int(torch.randint(2, self.block_size, (), generator=generator))
        return draw_blocks(answers, count, rows, generator, _MULTIPLE)

    def _read(self, path: Path) -> list[tuple[list[Answer], int]]:
        """Answers of similar length, with the number of anchors to draw from each."""
        left = sorted(read_shard(path), key=lambda answer: (len(answer.ids) - answer.prompt, len(answer.ids)))
        groups = []
        while left:
            middle = left[min(len(left) - 1, self.blocks // 16)]
            count = min(self.blocks, max(2, round((len(middle.ids) - middle.prompt) / self.stride)))
            many = max(1, self.blocks // count)
            groups.append((left[:many], count))
            left = left[many:]
        return groups
