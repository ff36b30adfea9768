"""3-D rotary positions of a prompt (Qwen3.5: time, row and column of every token).

Text tokens have the same position on all three axes. An image that starts at position p keeps time p for all
its tokens, rows p, p+1, ... and columns p, p+1, ...; the text after it goes on at p + max(rows, columns).
So positions fall behind the index after an image, and two types keep them apart:

- `SeqIndex` counts tokens: it names the row of the KV cache.
- `RopePos` is what the rotary embedding sees. After the prompt, `RopePos = SeqIndex + delta` on every axis.

Source: `get_rope_index` of transformers' Qwen3.5.
"""

from collections.abc import Sequence
from typing import NewType

import torch

from ocria.errors import InputError

SeqIndex = NewType("SeqIndex", int)
RopePos = NewType("RopePos", int)
RopeDelta = NewType("RopeDelta", int)


def rope_positions(
    ids: Sequence[int], image_token_id: int, grids: Sequence[tuple[int, int, int]], merge: int
) -> tuple[torch.Tensor, RopeDelta]:
    """Positions int64 [3, T] (time, row, column) of a prompt, and the delta for the tokens after it.

    `ids`: T token ids in which every image's placeholder is already repeated to its token count.
    `grids`: (1, rows, columns) in patches, an image each, in order. `merge`: patches a token side.
    Raises InputError when runs of placeholders and grids do not match.
    """
    tokens = torch.as_tensor(ids, dtype=torch.int64)
    positions = torch.empty(3, len(tokens), dtype=torch.int64)
    index, position = SeqIndex(0), RopePos(0)
    pending = list(grids)
    while index < len(tokens):
        run = _run_length(tokens, index, image_token_id)
        if tokens[index] != image_token_id:
            positions[:, index : index + run] = torch.arange(position, position + run)
            position = RopePos(position + run)
            index = SeqIndex(index + run)
            continue
        if not pending:
            raise InputError(f"the prompt has image tokens at {index} but no image is left for them")
        time, rows, columns = pending.pop(0)
        rows, columns = rows // merge, columns // merge
        if time != 1 or rows * columns != run:
            raise InputError(
                f"the prompt has {run} image tokens at {index}, and its image makes {time * rows * columns}"
            )
        positions[0, index : index + run] = position
        positions[1, index : index + run] = position + torch.arange(rows).repeat_interleave(columns)
        positions[2, index : index + run] = position + torch.arange(columns).repeat(rows)
        position = RopePos(position + max(rows, columns))
        index = SeqIndex(index + run)
    if pending:
        raise InputError(f"{len(pending)} images have no tokens in the prompt")
    return positions, RopeDelta(_next_position(positions) - len(tokens))


def _run_length(tokens: torch.Tensor, start: int, image_token_id: int) -> int:
    """Tokens from `start` on that are all image tokens, or all text."""
    kind = tokens[start] == image_token_id
    other = ((tokens[start:] == image_token_id) != kind).nonzero()
    return int(other[0]) if len(other) else len(tokens) - start


def _next_position(positions: torch.Tensor) -> int:
    return int(positions.max()) + 1 if positions.numel() else 0
