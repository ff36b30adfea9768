"""Character error rate of a learner on held-out lines, by the CTC head and by greedy decoding."""

from dataclasses import dataclass

import numpy as np
import torch

from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.ops.upload import send
from ocria.train import vocabulary as V
from ocria.train.learner import Learner, line_positions


def distance(a: str, b: str) -> int:
    """Levenshtein distance, by numpy rows."""
    if not a or not b:
        return max(len(a), len(b))
    other = np.array([ord(c) for c in b])
    index = np.arange(len(b) + 1)
    row = index.copy()
    for char in a:
        step = np.empty_like(row)
        step[0] = row[0] + 1
        step[1:] = np.minimum(row[1:] + 1, row[:-1] + (other != ord(char)))
        # Insertions run left to right: a running minimum after removing the ramp.
        row = np.minimum.accumulate(step - index) + index
    return int(row[-1])


@dataclass(frozen=True)
class Score:
    """Character error rates in percent, and the worst lines as (errors, truth, read)."""

    ctc: float
    decoder: float | None
    worst: list[tuple[int, str, str]]


@torch.inference_mode()
def evaluate(learner: Learner, batches, decode: bool) -> Score:
    """Read every batch; greedy decoding only when `decode`."""
    learner.eval()
    characters = ctc_errors = decoder_errors = 0
    worst = []
    for batch in batches:
        features = learner.encode(send(torch.from_numpy(batch.images), learner.network.device))
        paths = learner.ctc_logits(features).argmax(-1).tolist()
        characters += sum(map(len, batch.texts))
        ctc_errors += sum(distance(V.ctc_text(path), text) for path, text in zip(paths, batch.texts, strict=True))
        if decode:
            for text, read in zip(batch.texts, greedy(learner, features), strict=True):
                errors = distance(read, text)
                decoder_errors += errors
                worst.append((errors, text, read))
    learner.train()
    worst.sort(key=lambda entry: -entry[0])
    return Score(100 * ctc_errors / characters, 100 * decoder_errors / characters if decode else None, worst[:12])


def greedy(learner: Learner, features: torch.Tensor) -> list[str]:
    """Greedy text of each line, features `[B, N, D]`; stops at im_end or at 5 bytes an image token."""
    network, config = learner.network, learner.config.text
    batch, tokens, _ = features.shape
    limit = 5 * tokens + 8
    device = features.device
    positions = send(line_positions(tokens, 1 + limit), device)
    cos, sin = text_rope(positions, config.rotary_dim, config.rope_theta, config.mrope_section)
    state = DecoderState.allocate(config, batch, positions.shape[1], features.dtype, device)
    slots = torch.arange(batch, device=device)

    def advance(hidden: torch.Tensor, start: int) -> torch.Tensor:
        rows = hidden.shape[1]
        window = Window.prefill(slots, torch.full_like(slots, start), torch.full_like(slots, rows),
                                cos[None, start : start + rows].expand(batch, -1, -1),
                                sin[None, start : start + rows].expand(batch, -1, -1),
                                start + rows, state.max_len, first_slot=0, full=True)
        return network.logits(network.decoder(hidden, window, state)[:, -1]).argmax(-1)

    ends = network.embed(torch.tensor([V.VISION_START, V.VISION_END], device=device)).expand(batch, -1, -1)
    token = advance(torch.cat([ends[:, :1], features, ends[:, 1:]], dim=1), 0)
    out = [token]
    done = token == V.IM_END
    while len(out) < limit and not done.all():
        token = advance(network.embed(token)[:, None], tokens + 1 + len(out))
        done |= token == V.IM_END
        out.append(token)
    texts = []
    for row in torch.stack(out, 1).tolist():
        row = row[: row.index(V.IM_END)] if V.IM_END in row else row
        texts.append(bytes(b for b in row if b < 256).decode("utf-8", "replace"))
    return texts
