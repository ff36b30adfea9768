"""An answer that is written step by step, with drafts of one source, as the engine would write it."""

import torch

from ocria.spec.source import Seen

JUNK = 10**9


class Writing:
    """Slots of a source whose answers are known. `max_len` rows a slot; rows that are no answer's hold junk."""

    def __init__(self, source, slots: int, max_len: int):
        self.source, self.max_len = source, max_len
        self.history = torch.full((slots, max_len), JUNK)
        source.allocate(slots, max_len, torch.device("cpu"))

    def seen(self, rows: dict[int, tuple[int, list[int]]], width: int, dead: tuple[int, ...] = ()) -> Seen:
        """What a source sees: by slot the row of the last prompt token, and the answer so far; padding at the end."""
        slots, first, length, anchor = [], [], [], []
        for slot, (start, answer) in rows.items():
            self.history[slot, start + 1 :][: max(len(answer) - 1, 0)] = torch.tensor(answer[:-1], dtype=torch.int64)
            slots.append(slot)
            first.append(start)
            length.append(start + len(answer))
            anchor.append(answer[-1] if answer else JUNK)
        slots, first, length, anchor = (torch.tensor([*part, 0]) for part in (slots, first, length, anchor))
        live = torch.tensor([slot not in dead for slot in rows] + [False])
        zeros = torch.zeros(len(slots))
        return Seen(
            slots, None, live, anchor, length, length, first, self.history, zeros, torch.zeros_like(slots), True, True,
            width, int(length.max()) + width,
        )  # fmt: skip

    def drafts(self, rows: dict[int, tuple[int, list[int]]], width: int = 9, dead: tuple[int, ...] = ()):
        """The drafts of every slot in `rows`."""
        drafts = self.source.propose(self.seen(rows, width, dead))
        assert drafts.tokens.shape == (len(rows) + 1, width - 1)
        assert drafts.ids is drafts.probability is None
        found = [tokens[:n] for tokens, n in zip(drafts.tokens.tolist(), drafts.count.tolist(), strict=True)]
        assert found.pop() == []  # the dummy
        return found

    def steps(self, slot: int, first: int, answer: list[int], width: int = 9) -> int:
        """How many steps one answer takes."""
        done = count = 0
        while done < len(answer):
            (drafts,) = self.drafts({slot: (first, answer[:done])}, width)
            held = 0
            while held < len(drafts) and done + held < len(answer) and drafts[held] == answer[done + held]:
                held += 1
            done += held + 1
            count += 1
        return count
