"""Prompts into the state: images through the vision encoder, then padded passes of prompt rows.

The last token of a prompt stays out: the first step feeds it, like every token after it, and chooses the token that
follows. So there is one place where tokens are chosen, and a prompt of one token needs no prefill.
"""

from collections.abc import Sequence as Many
from itertools import groupby

import torch

from ocria.errors import EngineError, InputError
from ocria.model.image import ImageConfig, preprocess
from ocria.model.network import Qwen35
from ocria.model.positions import rope_positions
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.ops.upload import send, upload
from ocria.runtime.memory import is_out_of_memory
from ocria.runtime.scheduler import Chunk
from ocria.runtime.sequence import Sequence
from ocria.runtime.step_costs import FLAT_ROWS
from ocria.spec.chain import Chain
from ocria.spec.source import drafter_position


def embed_prompts(
    network: Qwen35, image: ImageConfig | None, sequences: Many[Sequence], patches: int
) -> list[tuple[torch.Tensor, ...]]:
    """Fill `hidden`, `positions` and `rope_delta` of admitted requests; returns the image tokens of each.

    Images of equal grids share passes of up to `patches` patch rows. A request whose image cannot be read gets
    its `error` set instead. Raises EngineError when an image makes another number of tokens than planned.
    """
    features = _encode(network, image, sequences, patches)
    config = network.config
    merge = config.vision.spatial_merge_size if config.vision else 1
    image_token = -1 if config.image_token_id is None else config.image_token_id
    every: list[tuple[torch.Tensor, ...]] = []
    for owner, sequence in enumerate(sequences):
        every.append(())
        if sequence.error is not None:
            continue
        ids = upload(sequence.feed[:-1], network.device, torch.int64)
        hidden = network.embed(ids)
        # A token that was chosen is no placeholder, whatever its number.
        places = [place for place, token in enumerate(sequence.ids) if token == image_token]
        tokens = every[-1] = tuple(features[owner, number] for number in range(len(sequence.grids)))
        made = sum(len(part) for part in tokens)
        if made != len(places):
            raise EngineError(f"{len(places)} image tokens in the prompt, {made} from the vision encoder")
        if tokens:
            hidden[upload(places, network.device)] = torch.cat(tokens).to(hidden.dtype)
        positions, sequence.rope_delta = rope_positions(sequence.ids, image_token, sequence.grids, merge)
        chosen = torch.arange(len(sequence.ids), len(sequence.feed)) + sequence.rope_delta
        positions = torch.cat([positions, chosen.expand(3, -1)], dim=1)
        sequence.positions = send(positions[:, :-1], network.device)
        sequence.hidden = hidden
    return every


def _encode(network, image, sequences, limit) -> dict[tuple[int, int], torch.Tensor]:
    """Image tokens `[M, D]` by (index of the request, number of its image)."""
    jobs = [
        (grid, owner, number)
        for owner, sequence in enumerate(sequences)
        for number, grid in enumerate(sequence.grids)
    ]
    done: dict[tuple[int, int], torch.Tensor] = {}
    for grid, equal in groupby(sorted(jobs), key=lambda job: job[0]):
        equal = list(equal)
        each = max(1, limit // (grid[0] * grid[1] * grid[2]))
        for start in range(0, len(equal), each):
            pixels, places = [], []
            for _, owner, number in equal[start : start + each]:
                try:
                    original = sequences[owner].request.images[number]
                    values, made = preprocess(original, image, distinct=network.takes_distinct_patches)
                    if made != grid:
                        raise InputError(f"it became a grid of {made}, where {grid} was planned")
                except Exception as error:  # a caller's object, read late: closed, changed or broken in any way
                    if is_out_of_memory(error):
                        raise
                    sequences[owner].error = InputError(f"image {number + 1} cannot be read: {error}")
                    continue
                pixels.append(values)
                places.append((owner, number))
            # Grey and coloured images may come with rows of different widths.
            for width in {values.shape[1] for values in pixels}:
                alike = [number for number, values in enumerate(pixels) if values.shape[1] == width]
                rows = send(torch.cat([pixels[number] for number in alike]), network.device)
                tokens = network.encode_image(rows, [grid] * len(alike)).chunk(len(alike))
                done |= zip((places[number] for number in alike), tokens, strict=True)
    return done


def prefill(network: Qwen35, state: DecoderState, chunks: Many[Chunk], drafter: Chain | None = None) -> None:
    """Compute one chunk of each of these prompts, in one pass or, where that saves time, those of like length in one
    each."""
    order = sorted(chunks, key=lambda chunk: -chunk.count)
    for start, stop in passes([chunk.count for chunk in order], FLAT_ROWS[network.device.type]):
        _prefill_pass(network, state, order[start:stop], drafter)


def passes(counts: list[int], flat_rows: float) -> list[tuple[int, int]]:
    """Cut descending numbers of rows into the padded passes that take least together, each presumed to take as long as
    its rows, padding included, and `flat_rows` more: (start, stop) of each."""
    cuts = [i for i, count in enumerate(counts) if i == 0 or count != counts[i - 1]] + [len(counts)]
    best: dict[int, tuple[float, int]] = {len(counts): (0.0, 0)}  # from here on: cost, and where the first pass stops
    for start in reversed(cuts[:-1]):
        best[start] = min(
            (flat_rows + (stop - start) * counts[start] + best[stop][0], stop) for stop in cuts if stop > start
        )
    found, start = [], 0
    while start < len(counts):
        found.append((start, best[start][1]))
        start = best[start][1]
    return found


def _prefill_pass(network: Qwen35, state: DecoderState, chunks: Many[Chunk], drafter: Chain | None) -> None:
    """Compute one chunk of each of B prompts in a padded pass: their rows enter the state, folded, and the drafter's
    context."""
    device = network.device
    count = [chunk.count for chunk in chunks]
    first, *_ = (chunk.sequence.hidden for chunk in chunks)
    hidden = first.new_zeros(len(chunks), max(count), first.shape[-1])
    positions = torch.zeros(3, len(chunks), max(count), dtype=torch.int64, device=device)
    for row, chunk in enumerate(chunks):
        rows = slice(chunk.start, chunk.start + chunk.count)
        hidden[row, : chunk.count] = chunk.sequence.hidden[rows]
        positions[:, row, : chunk.count] = chunk.sequence.positions[:, rows]
    text = network.config.text
    cos, sin = text_rope(positions, text.rotary_dim, text.rope_theta, text.mrope_section)
    window = Window.prefill(
        upload([chunk.sequence.slot for chunk in chunks], device),
        upload([chunk.start for chunk in chunks], device),
        upload(count, device),
        cos,
        sin,
        max(chunk.start + chunk.count for chunk in chunks),
        state.max_len,
        full=min(count) == max(count),
        fresh=not any(chunk.start for chunk in chunks),
    )
    taps = drafter.taps if drafter else ()
    features = network.remember(hidden, window, state, taps)
    if features is not None:
        drafter.extend(features, drafter_position(positions), window.slots, window.length, window.count)
