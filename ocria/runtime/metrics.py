"""Counters of an engine, each defined here and nowhere else."""

from dataclasses import dataclass


@dataclass
class Metrics:
    """Seconds are wall time inside the passes. A decode token is one chosen by a decode step (the first token of a
    request comes from prefill and is not one); a prefill token is a prompt row, image tokens included."""

    decode_tokens: int = 0
    decode_seconds: float = 0.0
    decode_steps: int = 0
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    encoder_seconds: float = 0.0
    """Part of `prefill_seconds`: image processing and vision encoder."""
    finished: int = 0

    @property
    def decode_tokens_per_s(self) -> float:
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def prefill_tokens_per_s(self) -> float:
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0
