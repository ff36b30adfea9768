"""Which requests enter, and which rows the next passes compute. Pure bookkeeping, no tensors."""

from collections import deque
from dataclasses import dataclass

from ocria.runtime.sequence import DECODE, DONE, PREFILL, WAITING, Sequence
from ocria.runtime.slots import Slots


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows `start .. start + count` of a prompt; its last token is not among them (see `prefill`)."""

    sequence: Sequence
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """`admitted`: requests that got a slot in this plan, in order; `prefill`: chunks for one padded pass;
    `decode`: requests whose prompt was in the state before this step. A request is in at most one of the last two."""

    admitted: tuple[Sequence, ...]
    prefill: tuple[Chunk, ...]
    decode: tuple[Sequence, ...]


class Scheduler:
    """First come, first served; a request that has entered runs until it ends.

    The phase of a request decides between prefill and step, never the shape of its rows.
    """

    def __init__(self, prefill_rows: int, group: int):
        self.prefill_rows, self.group = prefill_rows, group
        self.waiting: deque[Sequence] = deque()
        self.running: dict[str | int, Sequence] = {}

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """Let a running request wait again, before all others."""
        del self.running[sequence.id]
        sequence.restart()
        self.waiting.appendleft(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a request in any phase."""
        if sequence.phase == WAITING:
            self.waiting.remove(sequence)
        else:
            del self.running[sequence.id]
        sequence.phase = DONE

    def plan(self, slots: Slots, max_len: int) -> StepPlan:
        """Admit what fits into free slots of `max_len` rows, then plan the rows of one step."""
        admitted = self._admit(slots, max_len)
        running = self.running.values()
        return StepPlan(admitted, self._prefill(), tuple(s for s in running if s.phase == DECODE))

    def _admit(self, slots: Slots, max_len: int) -> tuple[Sequence, ...]:
        if self.running and slots.free < min(self.group, len(self.waiting)):
            return ()  # one pass over several prompts costs little more than over one
        admitted = []
        while self.waiting and slots.free and self.waiting[0].rows <= max_len:
            sequence = self.waiting[0]
            sequence.slot = slots.acquire(sequence.id)
            self.waiting.popleft()
            sequence.phase = PREFILL
            self.running[sequence.id] = sequence
            admitted.append(sequence)
        return tuple(admitted)

    def _prefill(self) -> tuple[Chunk, ...]:
        """The oldest prompts whose padded rows stay within the limit."""
        chunks: list[Chunk] = []
        longest = 0
        for sequence in self.running.values():
            if sequence.phase != PREFILL or sequence.filled == sequence.prefill_len:
                continue
            count = min(sequence.prefill_len - sequence.filled, self.prefill_rows)
            longest = max(longest, count)
            if chunks and longest * (len(chunks) + 1) > self.prefill_rows:
                break
            chunks.append(Chunk(sequence, sequence.filled, count))
        return tuple(chunks)
