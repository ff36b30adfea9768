"""Who owns which slot. A slot is a row of every state tensor; slot 0 is the dummy and is never given out."""

import heapq

from ocria.errors import EngineError

DUMMY = 0


class Slots:
    """Slots 1..count. The lowest free one is given out first, so that live slots lie close together."""

    def __init__(self, count: int):
        self.count = count
        self._free = list(range(1, count + 1))
        self._owner: dict[int, str | int] = {}
        self.changes = 0  # how often a slot changed hands: who remembers a choice of slots looks here

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def live(self) -> int:
        return len(self._owner)

    def is_free(self, slot: int) -> bool:
        return slot != DUMMY and slot not in self._owner

    def acquire(self, owner: str | int) -> int:
        """A free slot for the request `owner`. Raises EngineError when there is none."""
        if not self._free:
            raise EngineError(f"no free slot for request {owner!r}: all {self.count} are taken")
        slot = heapq.heappop(self._free)
        self._owner[slot] = owner
        self.changes += 1
        return slot

    def release(self, slot: int, owner: str | int) -> None:
        """Give a slot back. Raises EngineError unless `owner` holds it: a slot is released exactly once."""
        if slot not in self._owner or self._owner[slot] != owner:
            holder = self._owner.get(slot, "nobody")
            raise EngineError(f"request {owner!r} releases slot {slot}, which belongs to {holder!r}")
        del self._owner[slot]
        self.changes += 1
        heapq.heappush(self._free, slot)

    def check_integrity(self, idle: bool = False) -> None:
        """Raise EngineError unless every slot is either free or owned, once, and with `idle` all are free."""
        known = sorted([*self._free, *self._owner])
        if known != list(range(1, self.count + 1)):
            raise EngineError(f"slots are lost or doubled: free {sorted(self._free)}, owned {sorted(self._owner)}")
        if idle and self._owner:
            raise EngineError(f"slots {sorted(self._owner)} are still owned by {list(self._owner.values())}")
