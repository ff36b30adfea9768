"""How many bytes decoding moves, to be held against what the memory of a device can do."""

from dataclasses import dataclass

import torch

from ocria.model.config import ModelConfig
from ocria.model.quantized import WeightBytes
from ocria.runtime.memory import network_bytes, state_parts
from ocria.runtime.options import ResolvedOptions

# Bytes a second, by a part of the name that CUDA gives the device. Source: the makers' data sheets.
_BANDWIDTH = {
    "B300": 8.0e12,
    "B200": 8.0e12,
    "H200": 4.8e12,
    "H100 80GB HBM3": 3.35e12,
    "H100 NVL": 3.9e12,
    "H100 PCIe": 2.0e12,
    "A100-SXM4-80GB": 2.039e12,
    "L40S": 0.864e12,
    "RTX 5090": 1.792e12,
    "RTX 4090": 1.008e12,
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that decode steps move at least, each byte counted once.

    `step`: weights that every step reads; `request`: state that a step reads and writes for each request, whatever
    its length; `kv_row`: keys and values of one row. `limit`: bytes a second that the device's memory can do, None
    where it is not known.
    """

    step: int
    request: int
    kv_row: int
    limit: float | None = None

    def of_step(self, requests: int, kv_rows: int) -> int:
        """Bytes of one step over so many requests, whose states hold `kv_rows` rows together."""
        return self.step + requests * self.request + kv_rows * self.kv_row


def traffic_of(
    config: ModelConfig,
    options: ResolvedOptions,
    dtype: torch.dtype,
    device: torch.device,
    stored: WeightBytes | None = None,
) -> Traffic:
    """An estimate for plain decoding of a model; drafts add rows to a step, and few bytes.

    stored: of the model's weights, for what kernels read less of those that are quantised. Weights: the decoder and
    the head, not the encoder; a table of embeddings that is no head is looked up in a few rows. State: the checkpoints
    are read in every step and written when the ring is full (always without a ring), the ring is half full on average.
    """
    text = config.text
    table = 0 if config.tie_word_embeddings else text.vocab_size * text.hidden_size * dtype.itemsize
    weights = network_bytes(config, dtype, encoder=False) - table
    if stored is not None and device.type == "cuda":
        weights -= stored.decoded - stored.codes
    state = state_parts(text, 1, dtype, options)
    steps_between = max(1, options.ring - 2 * options.rows + 1)
    request = state["checkpoints"] + state["checkpoints"] // steps_between + state["rings"] // 2 + state["conv"]
    return Traffic(weights, request, state["kv"], bandwidth(device))


def bandwidth(device: torch.device) -> float | None:
    """Bytes a second that the memory of a device can do by its data sheet; None where it is not known."""
    return bandwidth_of(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def bandwidth_of(name: str) -> float | None:
    """The same by the name of a GPU."""
    return next((rate for part, rate in _BANDWIDTH.items() if part in name), None)
