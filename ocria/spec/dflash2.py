"""DFlash2: DFlash with two local means against drafts that do not fit each other.

Short convolutions around attention and MLP let a row know the rows before it, with kernels that depend on the row.
A selector then walks through the best tokens of every row: what a token is worth depends on the one chosen before
it. Sources: `z-lab/dflash`, `vllm-project/vllm` `qwen3_dflash2.py`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ocria.ops.linear import Linear
from ocria.spec.arena import BlockAttention
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash import DFlash, DraftLayer, Proposal, Target
from ocria.spec.draws import Draws, choose


@dataclass(frozen=True, slots=True)
class Candidates:
    """ids int64 `[B, n, K]`: the likeliest tokens of every row, best first; scores fp32 `[B, n, K, K]`: of each as the
    successor (last axis) of each candidate of the row before. The predecessor of the first row is the anchor, so its
    scores are the same for all."""

    ids: torch.Tensor
    scores: torch.Tensor


class GroupedConv(nn.Module):
    """Causal convolution inside a block, channel by channel: a base kernel, and what the row adds to it for groups of
    channels. It has two sides, before and after a branch; row 0 has nothing before it."""

    def __init__(self, config: DrafterConfig):
        super().__init__()
        self.taps, self.group = config.conv_kernel_size, config.conv_group_size
        self.base_kernel = nn.Parameter(torch.zeros(2, self.taps, config.hidden_size))
        nn.init.ones_(self.base_kernel[:, 0])
        groups = config.hidden_size // self.group
        self.kernel_projection = Linear(config.hidden_size, 2 * self.taps * groups, bias=False)

    def kernels(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The kernels of both sides for the branch's normalised input `[B, T, H]`: fp32 `[B, T, taps, groups, group]`
        each."""
        base = self.base_kernel.float().unflatten(-1, (-1, self.group))
        delta = self.kernel_projection(z).float().unflatten(-1, (2, self.taps, -1))
        return (base + delta[..., None]).unbind(2)

    @staticmethod
    def convolve(y: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        """y `[B, T, H]` -> the same shape, summed in fp32."""
        rows = y.float().unflatten(-1, kernel.shape[-2:])
        total = kernel[:, :, 0] * rows
        for tap in range(1, kernel.shape[2]):
            before = F.pad(rows, (0, 0, 0, 0, tap, 0))[:, : rows.shape[1]]
            total = total + kernel[:, :, tap] * before
        return total.flatten(-2).to(y.dtype)


class DFlash2Layer(DraftLayer):
    """A layer whose branches stand between the two sides of a convolution."""

    def __init__(self, config: DrafterConfig, index: int):
        super().__init__(config, index)
        self.attention_conv = GroupedConv(config)
        self.mlp_conv = GroupedConv(config)

    def forward(
        self,
        x: torch.Tensor,
        more: torch.Tensor | None,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attention: BlockAttention,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        conv = self.attention_conv
        y, x = self.input_layernorm.after(x, more)
        before, after = conv.kernels(y)
        y = conv.convolve(self.self_attn(conv.convolve(y, before), cos, sin, attention, self.index), after)
        conv = self.mlp_conv
        y, x = self.post_attention_layernorm.after(x, y)
        before, after = conv.kernels(y)
        return x, conv.convolve(self.mlp(conv.convolve(y, before)), after)


class CandidateSelector(nn.Module):
    """Scores of pairs of neighbouring tokens, of low rank, by the hidden row of the second."""

    def __init__(self, config: DrafterConfig):
        super().__init__()
        self.top_k = config.selector_top_k
        self.hidden_projection = Linear(config.hidden_size, config.selector_rank, bias=False)
        self.predecessor_codebook = nn.Parameter(torch.zeros(config.vocab_size, config.selector_rank))
        self.successor_codebook = nn.Parameter(torch.zeros(config.vocab_size, config.selector_rank))

    def pairs(self, hidden: torch.Tensor, ids: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        """What the selector adds: hidden `[B, n, H]`, candidates `[B, n, K]`, anchor `[B]` -> fp32 `[B, n, K, K]`."""
        first = anchor[:, None, None].expand(-1, 1, ids.shape[2])
        before = F.embedding(torch.cat([first, ids[:, :-1]], dim=1), self.predecessor_codebook).float()
        after = F.embedding(ids, self.successor_codebook).float()
        return (before * self.hidden_projection(hidden).float()[:, :, None]) @ after.transpose(2, 3)


class DFlash2(DFlash):
    """The drafter with convolutions and selector."""

    layer_class = DFlash2Layer

    def __init__(self, config: DrafterConfig):
        super().__init__(config)
        self.candidate_selector = CandidateSelector(config)

    def propose(
        self,
        target: Target,
        hidden: torch.Tensor,
        anchor: torch.Tensor,
        draws: Draws | None = None,
        most: int | None = None,
    ) -> Proposal:
        """Tokens for the hidden rows `[B, n, H]` of `draft` by a walk through their candidates, few enough for any
        `most`."""
        found = self.candidates(target, hidden, anchor)
        return walk(found) if draws is None else walk(found, draws.temperature, draws.noise(found.ids))

    def candidates(self, target: Target, hidden: torch.Tensor, anchor: torch.Tensor) -> Candidates:
        """The K likeliest tokens of every row and what each is worth behind each of the row before."""
        # Multiplier and cap keep the order, except that the cap makes very high logits equal: choose before it.
        logits, ids = target.logits(hidden).topk(self.candidate_selector.top_k, dim=-1)
        pairs = self.candidate_selector.pairs(hidden, ids, anchor)
        return Candidates(ids, self.capped(logits)[:, :, None] + pairs)


def walk(found: Candidates, temperature: torch.Tensor | None = None, noise: torch.Tensor | None = None) -> Proposal:
    """From the anchor to the best successor, and on from there; not the best of all paths.

    With temperature fp32 `[B]` and Gumbel noise fp32 `[B, n, K]` of the candidates the successors are drawn.
    """
    # The successor of every candidate first, all rows at once; what remains in order is to follow them.
    if temperature is None or noise is None:
        successor, probability = found.scores.argmax(dim=-1), None
    else:
        successor, probability = choose(found.scores, temperature[:, None, None], noise[:, :, None])
    index, path = torch.zeros_like(found.ids[:, 0, :1]), []
    for row in successor.unbind(1):
        path.append(index)
        index = row.gather(1, index)
    before, chosen = torch.cat(path, dim=1), torch.cat([*path[1:], index], dim=1)
    tokens = found.ids.gather(2, chosen[:, :, None])[:, :, 0]
    if probability is None:
        return Proposal(tokens, None, found.ids)
    at = before[:, :, None, None].expand(-1, -1, 1, found.ids.shape[2])
    return Proposal(tokens, probability.gather(2, at)[:, :, 0], found.ids)
