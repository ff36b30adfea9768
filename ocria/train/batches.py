"""Batches of line images of one width, rendered by background processes."""

import itertools
import multiprocessing
import os
import queue
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ocria.model.line import HEIGHT, MAX_WIDTH, line_image, scaled_width
from ocria.train.vocabulary import CTC_FRAMES, ctc_labels

MAX_TOKENS = 100  # image tokens; longer lines are split by the reader


@dataclass
class Batch:
    """images uint8 `[B, HEIGHT, W]`, texts `[B]`."""

    images: np.ndarray
    texts: list[str]


def usable(image: np.ndarray, text: str) -> np.ndarray | None:
    """The line image of a raw crop, or None when it is empty, too wide, or too narrow for its text under CTC."""
    if not text or min(image.shape) < 3 or scaled_width(*image.shape) > min(MAX_WIDTH, MAX_TOKENS * HEIGHT):
        return None
    line = line_image(image)
    labels = ctc_labels(text)
    repeats = sum(a == b for a, b in itertools.pairwise(labels))
    frames = line.shape[1] // HEIGHT * CTC_FRAMES
    return line if len(labels) + repeats <= frames else None


def batches(stream, tokens: int, limit: int = 256, surplus: int = 1):
    """Group an endless stream of (image, text) samples into batches of one width and `surplus` times as many lines
    as about `tokens` image tokens make."""
    waiting: dict[int, list] = defaultdict(list)
    for sample in stream:
        line = usable(sample.image, sample.text)
        if line is None:
            continue
        width = line.shape[1]
        waiting[width].append((line, sample.text))
        if len(waiting[width]) >= surplus * min(limit, max(1, tokens * HEIGHT // width)):
            group = waiting.pop(width)
            yield Batch(np.stack([image for image, _ in group]), [text for _, text in group])


def _render(out, seed: int, tokens: int, surplus: int, options: dict) -> None:
    os.nice(5)
    from ocria.train.lines import LineStream

    parent = os.getppid()
    for batch in batches(LineStream(seed, "train", **options), tokens, surplus=surplus):
        while True:
            try:
                out.put(batch, timeout=5)
                break
            except queue.Full:
                if os.getppid() != parent:  # the trainer is gone
                    return


class Renderer:
    """`workers` processes that keep a queue of training batches filled. Use as an iterator; `close()` at the end."""

    def __init__(self, seed: int, tokens: int, workers: int = 1, surplus: int = 1, **options):
        context = multiprocessing.get_context("spawn")
        self.queue = context.Queue(maxsize=24)
        self.processes = [
            context.Process(target=_render, args=(self.queue, seed * 1000 + i, tokens, surplus, options), daemon=True)
            for i in range(workers)
        ]
        for process in self.processes:
            process.start()

    def __iter__(self):
        while True:
            try:
                yield self.queue.get(timeout=120)
            except queue.Empty:
                if not any(process.is_alive() for process in self.processes):
                    raise RuntimeError("all line rendering processes died; see their traceback above") from None

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
            process.join()
