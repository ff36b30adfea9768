"""The vision encoder: patches in, merged image tokens out."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import VisionConfig
from ocria.model.embedding import empty_embedding
from ocria.model.quantized import Preparation
from ocria.ops.linear import Linear, Packed, linear, pack
from ocria.ops.rope import rotate, vision_rope

Grids = list[tuple[int, int, int]]  # (frames, patch rows, patch columns) of each image

_KEPT_PATCHES = 8192
"""Positions are kept for grids of so many patches in all: thirty widths of lines, or the last pages."""


class PatchEmbed(nn.Module):
    """A linear layer over flattened patches, stored as the checkpoint's Conv3d `[D, C, T, P, P]`.

    A still image holds every frame twice and a grey one every channel three times. In fp32 on a CPU, patches may come
    without what repeats: `[N, C*P*P]` or `[N, P*P]`, for which the weight is summed over frames, and over channels.
    The result is that of the whole patches up to rounding, for a sixth of the products.
    """

    def __init__(self, config: VisionConfig):
        super().__init__()
        kernel = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.hidden_size, kernel, stride=kernel)

        self._packed: Packed | None = None
        self._distinct: dict[int, Packed | None] = {}

    def prepare(self) -> None:
        weight = self.proj.weight.detach()
        self._packed = pack(weight.flatten(1))
        if weight.dtype == torch.float32 and self._packed is not None:
            # Summed in fp64: the sum of six weights is rounded once.
            for summed in (weight.double().sum(2), weight.double().sum((1, 2))):
                summed = summed.flatten(1).float()
                self._distinct[summed.shape[1]] = pack(summed)

    @property
    def takes_distinct(self) -> bool:
        return bool(self._distinct)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        weight = self.proj.weight
        whole = weight[0].numel()
        packed = self._packed if patches.shape[1] == whole else self._distinct[patches.shape[1]]
        return linear(patches.to(weight.dtype), weight.flatten(1), self.proj.bias, packed=packed)


class VisionMLP(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.linear_fc1 = Linear(config.hidden_size, config.intermediate_size, activation="gelu_tanh")
        self.linear_fc2 = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear_fc2(self.linear_fc1(x))


class VisionAttention(nn.Module):
    """Full bidirectional attention inside each frame."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = Linear(config.hidden_size, 3 * config.hidden_size)
        self.proj = Linear(config.hidden_size, config.hidden_size)
        self._paired: tuple[Packed, torch.Tensor] | None = None

    def prepare(self, how: Preparation) -> list[Linear]:
        """In fp32 on a CPU, have the two dims of q and k that turn together side by side, which leaves their products
        what they are: turning them is then one product of complex numbers in place."""
        weight = self.qkv.weight
        packed = None
        if how.pack and weight is not None and weight.dtype == torch.float32:
            rows = torch.arange(weight.shape[0], device=weight.device).view(3, self.num_heads, 2, -1)
            order = torch.cat([rows[:2].transpose(2, 3).flatten(), rows[2].flatten()])
            packed = pack(weight[order])
        if packed is None:
            return []
        self._paired = packed, self.qkv.bias.detach()[order]
        return [self.qkv]

    def _turned(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """q, k and v `[N, H, head_dim]`."""
        if self._paired is None:
            q, k, v = self.qkv(x).view(x.shape[0], 3, self.num_heads, -1).unbind(1)
            cos, sin = cos[:, None], sin[:, None]
            return rotate(q.float(), cos, sin).to(v.dtype), rotate(k.float(), cos, sin).to(v.dtype), v
        packed, bias = self._paired
        qkv = linear(x, None, bias, packed=packed)
        half = cos.shape[1] // 2
        turn = torch.complex(cos[:, :half], sin[:, :half])[:, None]
        torch.view_as_complex(qkv.view(x.shape[0], 3 * self.num_heads, half, 2)[:, : 2 * self.num_heads]).mul_(turn)
        return qkv.view(x.shape[0], 3, self.num_heads, -1).unbind(1)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, frames: list[int]) -> torch.Tensor:
        """x `[N, D]`; cos, sin fp32 `[N, head_dim]`; `frames`: patches of each frame, in order, summing to N."""
        q, k, v = self._turned(x, cos, sin)
        o = torch.empty_like(v) if len(set(frames)) > 1 else None
        start = 0
        for length, run in _runs(frames):
            rows = slice(start, start + length * run)
            part = [t[rows].view(run, length, self.num_heads, -1).transpose(1, 2) for t in (q, k, v)]
            y = F.scaled_dot_product_attention(*part).transpose(1, 2).reshape(length * run, self.num_heads, -1)
            if o is None:
                o = y
            else:
                o[rows] = y
            start += length * run
        return self.proj(o.reshape(x.shape[0], -1))


class VisionBlock(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.attn = VisionAttention(config)
        self.mlp = VisionMLP(config)

    def forward(self, x, cos, sin, frames):
        x = x + self.attn(self.norm1(x), cos, sin, frames)
        return x + self.mlp(self.norm2(x))


class PatchMerger(nn.Module):
    """Joins merge x merge neighbouring patches into one token of the decoder's width."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size, eps=1e-6)
        self.width = config.hidden_size * config.spatial_merge_size**2
        self.linear_fc1 = Linear(self.width, self.width, activation="gelu")
        self.linear_fc2 = Linear(self.width, config.out_hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear_fc2(self.linear_fc1(self.norm(x).view(-1, self.width)))


class VisionEncoder(nn.Module):
    """Patch rows of one or several images, packed, to image tokens in reading order of each image."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = empty_embedding(config.num_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.depth))
        self.merger = PatchMerger(config)
        self._kept: dict[tuple[int, int, int], tuple[torch.Tensor, ...]] | None = None

    def prepare(self) -> None:
        """Keep what follows from the grid alone: from now on the table of positions must not change."""
        self._kept = {}

    def forward(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """patches `[N, C*T*P*P]`, or fewer columns (see `PatchEmbed`), in merge-block order, images one after the other
        -> `[N / merge^2, D_text]`."""
        return self.merger(self.features(patches, grids))

    def features(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """The last block's output `[N, D]`, before merging."""
        x = self.patch_embed(patches)
        added, cos, sin = self._places(grids, patches.device)
        x = x + added.to(x.dtype)
        frames = [h * w for t, h, w in grids for _ in range(t)]
        for block in self.blocks:
            x = block(x, cos, sin, frames)
        return x

    def _places(self, grids: Grids, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What is added to the patches of these images, `[N, D]`, and cos and sin of their rotation."""
        if self._kept is None:
            return self._placed(grids, device)
        if sum(h * w for _, h, w in self._kept) > _KEPT_PATCHES:
            self._kept.clear()
        for grid in set(grids) - self._kept.keys():
            self._kept[grid] = self._placed([grid], device)
        each = [self._kept[grid] for grid in grids]
        return each[0] if len(each) == 1 else tuple(torch.cat(parts) for parts in zip(*each, strict=True))

    def _placed(self, grids: Grids, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        c = self.config
        rows, columns, heights, widths = patch_coordinates(grids, c.spatial_merge_size, device)
        return self._positions(rows, columns, heights, widths), *vision_rope(rows, columns, c.head_dim, c.rope_theta)

    def _positions(self, rows, columns, heights, widths) -> torch.Tensor:
        """The learned square table resampled to each image's grid: bilinear, corners aligned, four taps."""
        side = round(self.config.num_position_embeddings**0.5)
        total = 0
        for row, row_weight in _taps(rows, heights, side):
            for column, column_weight in _taps(columns, widths, side):
                total = total + self.pos_embed(row * side + column) * (row_weight * column_weight)[:, None]
        return total


def _taps(index: torch.Tensor, length: torch.Tensor, side: int):
    position = index.float() * ((side - 1) / (length - 1).clamp(min=1).float())
    position = torch.where(length > 1, position, 0.0)
    low = position.floor().long().clamp(max=side - 1)
    part = position - low
    return (low, 1 - part), ((low + 1).clamp(max=side - 1), part)


def patch_coordinates(grids: Grids, merge: int, device=None):
    """Row, column, grid height and grid width of every patch, int64 `[N]` each, in merge-block order
    (block row, block column, row in block, column in block), frames repeated."""
    out = [[], [], [], []]
    for frames, height, width in grids:
        row = torch.arange(height, device=device)[:, None].expand(height, width)
        column = torch.arange(width, device=device)[None, :].expand(height, width)
        blocks = (height // merge, merge, width // merge, merge)
        row = row.reshape(blocks).transpose(1, 2).flatten().repeat(frames)
        column = column.reshape(blocks).transpose(1, 2).flatten().repeat(frames)
        values = (row, column, torch.full_like(row, height), torch.full_like(row, width))
        for part, value in zip(out, values, strict=True):
            part.append(value)
    return tuple(torch.cat(part) for part in out)


def _runs(values: list[int]) -> list[tuple[int, int]]:
    """[5, 5, 3] -> [(5, 2), (3, 1)]"""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return runs
