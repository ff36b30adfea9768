"""What the device knows of every slot, beside the decoder's state. The host writes a slot's entries when its prompt
is in the state and when it takes the slot away; between the two they are the device's own."""

from dataclasses import dataclass

import torch

from ocria.model.config import TextConfig
from ocria.ops.rope import text_rope
from ocria.ops.upload import upload

STOP_IDS = 16
"""Most tokens that end an answer, per request."""


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """What the host knows of a request whose prompt but its last token is in the state.

    token: the last token of the prompt; length: rows in the state, all of them in the checkpoint; rope_delta: rotary
    position minus row; left: output tokens that are allowed; stop_ids: at most `STOP_IDS`.
    """

    slot: int
    token: int
    length: int
    rope_delta: int
    left: int
    stop_ids: tuple[int, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class SlotBuffers:
    """One entry a slot, dummy included; the device's truth that every step starts from.

    pending int64 `[slots, rows]`: the tokens of the next step, `given` that are certain (the last one chosen) and
    `drafted` after them; length: rows in the state, the KV row of the first pending token; folded: rows in the Gated
    DeltaNet checkpoint; rope_delta: rotary position minus row; left: output tokens still allowed; top_k, seed: all
    int64 `[slots]`; temperature, top_p fp32 `[slots]`; done bool `[slots]`: nobody's, or finished, so that a step
    leaves it alone; stop_ids int64 `[slots, STOP_IDS]`, -1 where there are fewer. cos, sin fp32
    `[max_len, rotary_dim]`: by rotary position, equal on the three axes.
    """

    pending: torch.Tensor
    given: torch.Tensor
    drafted: torch.Tensor
    length: torch.Tensor
    folded: torch.Tensor
    rope_delta: torch.Tensor
    left: torch.Tensor
    top_k: torch.Tensor
    seed: torch.Tensor
    temperature: torch.Tensor
    top_p: torch.Tensor
    done: torch.Tensor
    stop_ids: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def allocate(
        cls, config: TextConfig, slots: int, max_len: int, device: str | torch.device, rows: int = 1
    ) -> "SlotBuffers":
        """All slots done. `rows`: most rows of a step."""
        positions = torch.arange(max_len, device=device).expand(3, max_len)
        cos, sin = text_rope(positions, config.rotary_dim, config.rope_theta, config.mrope_section)
        counts = ("given", "drafted", "length", "folded", "rope_delta", "left", "top_k", "seed")
        return cls(
            pending=torch.zeros(slots, rows, dtype=torch.int64, device=device),
            **{name: torch.zeros(slots, dtype=torch.int64, device=device) for name in counts},
            temperature=torch.zeros(slots, device=device),
            top_p=torch.ones(slots, device=device),
            done=torch.ones(slots, dtype=torch.bool, device=device),
            stop_ids=torch.full((slots, STOP_IDS), -1, dtype=torch.int64, device=device),
            cos=cos,
            sin=sin,
        )

    def enter(self, entries: list[SlotEntry]) -> None:
        """Let these slots take part in steps from now on."""
        slots = self._put_on([entry.slot for entry in entries])
        for name in ("length", "rope_delta", "left", "top_k", "seed", "temperature", "top_p"):
            values = self._put_on([getattr(entry, name) for entry in entries])
            getattr(self, name)[slots] = values
        self.folded[slots] = self.length[slots]
        self.given[slots] = 1
        self.drafted[slots] = 0
        self.pending[slots, 0] = self._put_on([entry.token for entry in entries])
        self.stop_ids[slots] = self._put_on([[*e.stop_ids, *[-1] * (STOP_IDS - len(e.stop_ids))] for e in entries])
        self.done[slots] = False

    def retire(self, slots: list[int]) -> None:
        """Steps leave these slots alone from now on."""
        self.done[self._put_on(slots)] = True

    def _put_on(self, values: list) -> torch.Tensor:
        return upload(values, self.done.device)
