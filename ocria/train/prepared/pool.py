"""Rendered lines, waiting to be trained on: each several times, since a GPU trains faster than 15 cores render."""

import random
from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from ocria.model.line import HEIGHT
from ocria.train.batches import Batch


@dataclass
class Draw:
    """A batch and how many of its lines were trained on before: all of them behind the new ones."""

    batch: Batch
    replayed: int


class Pool:
    """Lines by width. A full batch of new lines goes first; where there is none, lines seen longest ago come again.

    tokens: image tokens of a batch; repeats: how often a line is trained on at most; capacity: bytes of images kept
    for that; above it those that were seen longest ago go.
    """

    def __init__(self, tokens: int, repeats: int, capacity: int, seed: int):
        self.tokens, self.repeats, self.capacity = tokens, repeats, capacity
        self.held = 0
        self.rendered = self.replayed = 0  # lines added, and lines drawn again
        self._random = random.Random(seed)
        self.clear()

    def clear(self) -> None:
        """Forget all lines: they are of an earlier stage."""
        self._new: dict[int, deque] = defaultdict(deque)
        self._seen: dict[int, deque] = defaultdict(deque)
        self.held = 0

    def add(self, batch: Batch) -> None:
        """New lines: images uint8 `[B, HEIGHT, W]` of any width that lines have."""
        width = batch.images.shape[2]
        self._new[width].extend((image, text, 0) for image, text in zip(batch.images, batch.texts, strict=True))
        self.held += batch.images.nbytes
        self.rendered += len(batch.texts)
        while self.held > self.capacity and self._drop():
            pass

    def draw(self) -> Draw | None:
        """The next batch of one width, or None where no width has enough lines for one."""
        ready = [width for width, lines in self._new.items() if len(lines) >= self._size(width)]
        if ready:
            width = max(ready, key=lambda w: len(self._new[w]) * w)
        else:
            ready = [w for w, lines in self._seen.items() if len(lines) + len(self._new[w]) >= self._size(w)]
            if not ready:
                return None
            width = self._random.choices(ready, [len(self._seen[w]) * w for w in ready])[0]
        new, seen, size = self._new[width], self._seen[width], self._size(width)
        lines = [new.popleft() for _ in range(min(size, len(new)))]
        replayed = size - len(lines)
        lines += [seen.popleft() for _ in range(replayed)]
        self.replayed += replayed
        for image, text, uses in lines:
            if uses + 1 < self.repeats:
                seen.append((image, text, uses + 1))
            else:
                self.held -= image.nbytes
        return Draw(Batch(np.stack([image for image, _, _ in lines]), [text for _, text, _ in lines]), replayed)

    def _size(self, width: int) -> int:
        return max(1, self.tokens * HEIGHT // width)

    def _drop(self) -> bool:
        """Give up one seen line of the width that holds most of them; False where there is none."""
        width = max(self._seen, key=lambda w: len(self._seen[w]) * w, default=None)
        if width is None or not self._seen[width]:
            return False
        image, _, _ = self._seen[width].popleft()
        self.held -= image.nbytes
        return True
