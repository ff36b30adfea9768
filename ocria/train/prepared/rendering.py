"""Processes that render training lines, in small groups of one width."""

import multiprocessing
import os
import queue
import signal

from ocria.train.batches import batches
from ocria.train.lines import LineStream

GROUP_TOKENS = 400  # about a dozen lines: the first come soon, and few wait in a worker


class Workers:
    """`count` processes that fill `queue` with `Batch`es of lines up to `longest.value` characters."""

    def __init__(self, seed: int, count: int, longest: int):
        context = multiprocessing.get_context("spawn")  # a process with CUDA cannot be forked
        self.queue = context.Queue(maxsize=8 * count)
        self.longest = context.Value("i", longest)
        self.processes = [
            context.Process(target=_render, args=(self.queue, self.longest, seed * 1000 + i), daemon=True)
            for i in range(count)
        ]
        for process in self.processes:
            process.start()

    @property
    def alive(self) -> int:
        return sum(process.is_alive() for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


def _render(out, longest, seed: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # sent to all processes of a run: the trainer decides
    parent = os.getppid()
    while True:
        limit = longest.value
        for batch in batches(LineStream(seed, "train", max_chars=limit), GROUP_TOKENS):
            while True:
                try:
                    out.put((limit, batch), timeout=5)
                    break
                except queue.Full:
                    if os.getppid() != parent:  # the trainer is gone
                        return
            if longest.value != limit:
                break
        seed += 500
