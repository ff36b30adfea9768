"""The vision encoder: patches in, merged image tokens out."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import VisionConfig
from ocria.model.embedding import empty_embedding
from ocria.ops.linear import Linear, linear, pack
from ocria.ops.rope import rotate, vision_rope

Grids = list[tuple[int, int, int]]  # (frames, patch rows, patch columns) of each image


class PatchEmbed(nn.Module):
    """A linear layer over flattened patches, stored as the checkpoint's Conv3d `[D, C, T, P, P]`."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        kernel = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.hidden_size, kernel, stride=kernel)

        self._packed: torch.Tensor | None = None

    def prepare(self) -> None:
        self._packed = pack(self.proj.weight.flatten(1))

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        weight = self.proj.weight
        return linear(patches.to(weight.dtype), weight.flatten(1), self.proj.bias, packed=self._packed)


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

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, frames: list[int]) -> torch.Tensor:
        """x `[N, D]`; cos, sin fp32 `[N, head_dim]`; `frames`: patches of each frame, in order, summing to N."""
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.num_heads, -1).unbind(1)
        cos, sin = cos[:, None], sin[:, None]
        q, k = rotate(q.float(), cos, sin).to(v.dtype), rotate(k.float(), cos, sin).to(v.dtype)
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

    def forward(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """patches `[N, C*T*P*P]` in merge-block order, images one after the other -> `[N / merge^2, D_text]`."""
        return self.merger(self.features(patches, grids))

    def features(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """The last block's output `[N, D]`, before merging."""
        c = self.config
        device = patches.device
        rows, columns, heights, widths = patch_coordinates(grids, c.spatial_merge_size, device)
        x = self.patch_embed(patches)
        x = x + self._positions(rows, columns, heights, widths).to(x.dtype)
        cos, sin = vision_rope(rows, columns, c.head_dim, c.rope_theta)
        frames = [h * w for t, h, w in grids for _ in range(t)]
        for block in self.blocks:
            x = block(x, cos, sin, frames)
        return x

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
