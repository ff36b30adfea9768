"""Batches on the device, made ready by a thread while the step before computes."""

import queue
import threading
import time
from dataclasses import dataclass

import torch

from ocria.errors import EngineError
from ocria.ops.upload import send
from ocria.train.prepared.pool import Draw, Pool
from ocria.train.prepared.rendering import Workers

PATIENCE = 180  # seconds without one line: the workers first read texts and fonts


@dataclass
class Ready:
    """images uint8 `[B, HEIGHT, W]` on the device, texts `[B]`; the last `replayed` lines were trained on before."""

    images: torch.Tensor
    texts: list[str]
    replayed: int


class Feed:
    """Takes groups from the workers, keeps them in a pool, draws from it."""

    def __init__(self, workers: Workers, pool: Pool, device: torch.device):
        self.workers, self.pool, self.device = workers, pool, device
        self._stage = workers.longest.value
        self._ready: queue.Queue = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stage(self, longest: int) -> None:
        """From now on lines of up to so many characters."""
        self.workers.longest.value = longest

    def take(self, deadline: float) -> Ready | None:
        """The next batch; None where none came before `deadline` (of `time.time()`).

        Raises EngineError where the workers died or render nothing.
        """
        while True:
            try:
                return self._ready.get(timeout=max(0.01, min(1.0, deadline - time.time())))
            except queue.Empty:
                if self._error is not None:
                    raise self._error from None
                if time.time() >= deadline:
                    return None

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        self.workers.close()

    def _run(self) -> None:
        try:
            last = time.monotonic()
            while not self._stop.is_set():
                last = time.monotonic() if self._collect() else last
                draw = self.pool.draw()
                if draw is not None:
                    self._hand_over(self._upload(draw))
                    continue
                if not self.workers.alive:
                    raise EngineError("all processes that render lines ended", cure="read their errors above")
                if time.monotonic() - last > PATIENCE:
                    raise EngineError(f"no line was rendered for {PATIENCE} seconds", cure="give it more cores")
                last = time.monotonic() if self._wait() else last
        except Exception as error:
            self._error = error

    def _collect(self) -> bool:
        """All groups that are there into the pool; whether there were any."""
        some = False
        for _ in range(256):
            try:
                self._add(self.workers.queue.get_nowait())
            except queue.Empty:
                break
            some = True
        return some

    def _wait(self) -> bool:
        """For one group; whether it came."""
        try:
            self._add(self.workers.queue.get(timeout=0.5))
        except queue.Empty:
            return False
        return True

    def _add(self, item) -> None:
        longest, batch = item
        if longest != self.workers.longest.value:
            return
        if longest != self._stage:
            self._stage = longest
            self.pool.clear()
        self.pool.add(batch)

    def _upload(self, draw: Draw) -> Ready:
        return Ready(send(torch.from_numpy(draw.batch.images), self.device), draw.batch.texts, draw.replayed)

    def _hand_over(self, ready: Ready) -> None:
        while not self._stop.is_set():
            try:
                return self._ready.put(ready, timeout=0.02)
            except queue.Full:
                self._collect()  # new lines are worth more than old ones: fetch them while the device computes
