"""Blocks to learn from: anchors drawn from answers, what follows each, and what each may look at.

Training computes all blocks of an answer at once, over one copy of its context. A block sees the context rows before
its anchor, and itself, as it will when it drafts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from ocria.spec.dflash import DFlash, Target, rope
from ocria.spec.rules import LayerRule
from ocria.train.drafter.data import Answer

IGNORED = -100
"""The label of a row that lies behind the end of its answer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A blocks of T rows from each of B answers, over contexts padded to S rows.

    features `[B, S, taps * D]`, position int64 `[B, S]`; row int64 `[B, A]`: each anchor's, which is the length of its
    context; anchor int64 `[B, A]`: its token; start int64 `[B, A]`: its rotary position; labels int64
    `[B, A, T - 1]`: the tokens behind it, IGNORED behind the end.
    """

    features: torch.Tensor
    position: torch.Tensor
    row: torch.Tensor
    anchor: torch.Tensor
    start: torch.Tensor
    labels: torch.Tensor

    def to(self, device: torch.device) -> "Blocks":
        return Blocks(*(getattr(self, field.name).to(device) for field in fields(self)))


def draw_blocks(
    answers: Sequence[Answer], count: int, block: int, generator: torch.Generator, multiple: int = 1
) -> Blocks:
    """`count` anchors from each answer: the last row of the prompt, where every answer begins, and others drawn from
    the rows of output, all but the last. Contexts are padded to a multiple of `multiple` rows."""
    longest = -(-max(len(a.features) for a in answers) // multiple) * multiple
    features = answers[0].features.new_zeros(len(answers), longest, answers[0].features.shape[1])
    position = torch.zeros(len(answers), longest, dtype=torch.int64)
    rows, anchors, starts, labels = [], [], [], []
    for number, answer in enumerate(answers):
        fed, first = len(answer.features), answer.prompt - 1
        features[number, :fed], position[number, :fed] = answer.features, answer.position
        row = torch.randint(first, fed, (count,), generator=generator)
        row[0] = first
        ahead = row[:, None] + torch.arange(1, block)
        ended = ahead >= len(answer.ids)
        rows.append(row)
        anchors.append(answer.ids[row])
        starts.append(answer.position[row])
        labels.append(answer.ids[ahead.clamp(max=len(answer.ids) - 1)].masked_fill(ended, IGNORED))
    return Blocks(features, position, *(torch.stack(part) for part in (rows, anchors, starts, labels)))


class TrainingAttention:
    """Attention of B x A blocks over their answers' contexts and themselves; called as `BlockAttention` is.

    keys, values `[B, S, layers, Hkv, D]` of the contexts, row int64 `[B, A]`: the anchors'. All blocks of an answer
    read one copy of its context, which is what makes many of them cheap.
    """

    def __init__(
        self, rules: tuple[LayerRule, ...], keys: torch.Tensor, values: torch.Tensor, row: torch.Tensor, rows: int
    ):
        self.rules, self.shape = rules, row.shape
        self.keys, self.values = (x.permute(2, 0, 3, 1, 4) for x in (keys, values))  # [layers, B, Hkv, S, D]
        self.masks = {rule: self._mask(rule, row, rows) for rule in dict.fromkeys(rules)}

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q `[B * A, T, H, D]`, k and v `[B * A, T, Hkv, D]`, all turned and normalised -> `[B * A, T, H * D]`."""
        (batch, blocks), (rows, heads, dim), shared = self.shape, q.shape[1:], k.shape[2]
        groups, size = heads // shared, self.keys.shape[3]
        # Rows as [B, Hkv, A, T, group]: those of a context next to each other, and those of a block too.
        q = q.view(batch, blocks, rows, shared, groups, dim).permute(0, 3, 1, 2, 4, 5) * dim**-0.5
        own = [x.view(batch, blocks, rows, shared, dim).permute(0, 3, 1, 2, 4) for x in (k, v)]
        context = q.reshape(batch, shared, -1, dim) @ self.keys[layer].to(q.dtype).transpose(2, 3)
        inside = q.reshape(batch, shared, blocks, rows * groups, dim) @ own[0].transpose(3, 4)
        context = context.view(batch, shared, blocks, rows, groups, size)
        scores = torch.cat([context, inside.view(batch, shared, blocks, rows, groups, rows)], dim=-1)
        share = (scores.float() + self.masks[self.rules[layer]]).softmax(dim=-1).to(v.dtype)
        context, inside = share.split([size, rows], dim=-1)
        o = context.reshape(batch, shared, -1, size) @ self.values[layer].to(v.dtype)
        o = o.view(batch, shared, blocks, rows * groups, dim)
        o = o + inside.reshape(batch, shared, blocks, rows * groups, rows) @ own[1]
        o = o.view(batch, shared, blocks, rows, groups, dim).permute(0, 2, 3, 1, 4, 5)
        return o.reshape(batch * blocks, rows, heads * dim)

    def _mask(self, rule: LayerRule, row: torch.Tensor, rows: int) -> torch.Tensor:
        """Added to the scores: fp32 0 or -inf, `[B, 1, A, T or 1, 1, S + T]`."""
        index, own = (torch.arange(n, device=row.device) for n in (self.keys.shape[3], rows))
        # Context rows from the anchor on are out of reach; the block stands in their place.
        key = torch.cat([index.expand(*row.shape, -1), row[:, :, None] + own], dim=2)
        later = torch.cat([index >= row[:, :, None], torch.zeros_like(key[:, :, :rows], dtype=torch.bool)], dim=2)
        behind = key[:, :, None] - (row[:, :, None] + own)[:, :, :, None]
        hidden = later[:, :, None]
        if rule.causal:
            hidden = hidden | (behind > 0)
        if rule.window is not None:
            hidden = hidden | (behind.abs() >= rule.window)
        mask = torch.zeros(hidden.shape, device=row.device).masked_fill_(hidden, float("-inf"))
        return mask[:, None, :, :, None]


def block_hidden(drafter: DFlash, target: Target, blocks: Blocks) -> torch.Tensor:
    """What `extend` and `draft` give for each block, differentiable: normalised hidden `[B * A, T - 1, H]`."""
    c = drafter.config
    rows = blocks.labels.shape[2] + 1
    keys, values = drafter.context(drafter.fuse(blocks.features.to(drafter.dtype)), blocks.position)
    anchor = blocks.anchor.flatten()
    ids = torch.cat([anchor[:, None], anchor.new_full((len(anchor), rows - 1), c.mask_token_id)], dim=1)
    x = target.embed(ids)
    if c.input_embedding_scale != 1.0:
        x = x * c.input_embedding_scale
    position = blocks.start.flatten()[:, None] + torch.arange(rows, device=anchor.device)
    cos, sin = rope(position, c.head_dim, c.rope_theta)
    attention = TrainingAttention(c.layers, keys, values, blocks.row, rows)
    return drafter.through(x, cos, sin, attention)[:, 1:]
