"""DFlash: a small decoder that drafts a whole block at once, from hidden states of the target.

The block is the last committed token, the anchor, and masks behind it; the row of a mask predicts the token at its
own place. Context keys and values do not come from tokens but from features: what some layers of the target left
behind, fused into one vector a row. Embeddings and head are the target's. Sources: `z-lab/dflash`,
`vllm-project/vllm` `qwen3_dflash.py`. Module names equal the tensor names of published checkpoints.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import nn

from ocria.model.attention import RMSNorm
from ocria.model.prepared import Preparable
from ocria.model.quantized import Preparation, QuantisedProjections
from ocria.model.text import MLP
from ocria.ops.linear import Linear, Projections, linear, pack
from ocria.ops.norm import normalised
from ocria.ops.quant_linear import Fed, Feed
from ocria.ops.rope import rotate
from ocria.spec.arena import BlockAttention, DraftState
from ocria.spec.config import DrafterConfig
from ocria.spec.draws import Draws, choose


class Target(Protocol):
    """What a drafter borrows."""

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids `[...]` -> `[..., H]`."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden `[..., H]` -> `[..., V]`."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """tokens int64 `[B, n]`: the drafts behind each anchor. Where they were drawn, probability fp32
    `[B, n, K]` of the tokens ids int64 `[B, n, K]` is what each draw was from; a row at temperature 0 has all of it on
    its token."""

    tokens: torch.Tensor
    probability: torch.Tensor | None = None
    ids: torch.Tensor | None = None


class PlainRMSNorm(RMSNorm):
    """RMS norm that multiplies by its weight, not by 1 + weight as the target's do."""

    def __init__(self, dim: int, eps: float):
        super().__init__(dim, eps)
        nn.init.ones_(self.weight)

    def prepare(self) -> None:
        self._scale = self.scale.detach()  # a parameter would be registered a second time

    @property
    def scale(self) -> torch.Tensor:
        """weight in fp32."""
        return self.weight.float() if self._scale is None else self._scale


class DraftAttention(nn.Module):
    """Grouped-query attention with q/k norm and rotary over whole heads."""

    def __init__(self, config: DrafterConfig):
        super().__init__()
        self.config = config
        dim, head_dim = config.hidden_size, config.head_dim
        self.q_proj = Linear(dim, config.num_attention_heads * head_dim, bias=False)
        self.k_proj = Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.v_proj = Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.o_proj = Linear(config.num_attention_heads * head_dim, dim, bias=False)
        self.q_norm = PlainRMSNorm(head_dim, config.rms_norm_eps)
        self.k_norm = PlainRMSNorm(head_dim, config.rms_norm_eps)
        self._fused: Projections | QuantisedProjections | None = None

    def prepare(self, how: Preparation) -> list[Linear]:
        """Compute q, k and v in one product from now on; returns the layers that are part of it."""
        layers = [self.q_proj, self.k_proj, self.v_proj]
        self._fused = how.join(layers)
        return layers

    @property
    def feed(self) -> Feed | None:
        """How the input is wanted."""
        return self._fused.feed if self._fused else None

    def forward(
        self, x: torch.Tensor | Fed, cos: torch.Tensor, sin: torch.Tensor, attention: BlockAttention, layer: int
    ) -> torch.Tensor:
        """x `[B, T, H]`; cos, sin fp32 `[B, T, D]` -> `[B, T, H]`. `attention` holds the context."""
        parts = self._fused(x) if self._fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (part.unflatten(-1, (-1, self.config.head_dim)) for part in parts)
        eps, cos, sin = self.config.rms_norm_eps, cos[:, :, None], sin[:, :, None]
        q = turned(q, self.q_norm.scale, eps, cos, sin)
        k = turned(k, self.k_norm.scale, eps, cos, sin)
        return self.o_proj(attention(layer, q, k, v))


class DraftLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). What a branch adds is handed on, to be added by the next norm."""

    def __init__(self, config: DrafterConfig, index: int):
        super().__init__()
        self.index = index
        self.self_attn = DraftAttention(config)
        self.mlp = MLP(config)
        self.input_layernorm = PlainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = PlainRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        x: torch.Tensor,
        more: torch.Tensor | None,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attention: BlockAttention,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The residual stream x and what is still to be added to it, `[B, T, H]` each, before -> after the layer."""
        y, x = self.input_layernorm.after(x, more, self.self_attn.feed)
        y, x = self.post_attention_layernorm.after(
            x, self.self_attn(y, cos, sin, attention, self.index), self.mlp.feed
        )
        return x, self.mlp(y)


class DFlash(Preparable):
    """The drafter. Build it under `torch.device("meta")` and fill it from a file."""

    layer_class: type[DraftLayer] = DraftLayer
    joining = (MLP, DraftAttention)

    def __init__(self, config: DrafterConfig):
        super().__init__()
        self.config = config
        self.fc = Linear(config.feature_size, config.hidden_size, bias=False)
        self.hidden_norm = PlainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(self.layer_class(config, i) for i in range(config.num_hidden_layers))
        self.norm = PlainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self._context: tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations, keys and values."""
        return self.norm.weight.dtype

    def _prepare(self, how: Preparation) -> None:
        """The context's product gets a copy of all k and v weights, beside the joined ones of each layer."""
        self._context = self._context_product(how), self._context_scale().detach()
        super()._prepare(how)
        for module in self.modules():
            if isinstance(module, RMSNorm):
                module.prepare()

    def extend(
        self,
        features: torch.Tensor,
        position: torch.Tensor,
        state: DraftState,
        slots: torch.Tensor,
        start: torch.Tensor,
        count: torch.Tensor,
    ) -> None:
        """Append rows that the target has committed to the context of slots `[B]`.

        features `[B, T, taps * H]`: outputs of the target's layers `target_layer_ids` side by side, position int64
        `[B, T]`: rotary positions; of these the first `count[b]` rows become rows `start[b] ..` of the slot, the others
        (rejected, or padding) are left out, whatever they hold. All indices int64 `[B]`.
        """
        valid = torch.arange(features.shape[1], device=count.device) < count[:, None]
        places = state.places(slots, start, valid)
        fused = self.fuse(features).masked_fill(~valid[:, :, None], 0)
        keys, values = self.context(fused, position)
        for layer in range(len(self.layers)):
            state.write(layer, places, keys[:, :, layer], values[:, :, layer])

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """Features `[..., taps * H]` of target rows -> one vector `[..., H]` a row, which all layers share."""
        return self.hidden_norm(self.fc(features))

    def context(self, fused: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of context rows for all layers at once: fused features `[B, T, H]`, rotary positions
        `[B, T]` -> two of `[B, T, layers, Hkv, D]`."""
        c = self.config
        project, scale = self._context or (self._context_plainly, self._context_scale())
        product = project(fused)
        k, v = product.unflatten(-1, (len(self.layers), 2, c.num_key_value_heads, c.head_dim)).unbind(3)
        cos, sin = rope(position, c.head_dim, c.rope_theta)
        return turned(k, scale, c.rms_norm_eps, cos[:, :, None, None], sin[:, :, None, None]), v

    def draft(
        self,
        target: Target,
        anchor: torch.Tensor,
        position: torch.Tensor,
        state: DraftState,
        slots: torch.Tensor,
        length: torch.Tensor,
        live: torch.Tensor,
        rows: int,
        kv_len: int,
        first_slot: int | None = None,
    ) -> torch.Tensor:
        """The block behind each anchor: hidden `[B, rows - 1, H]` of the drafts, normalised, for `propose`.

        anchor int64 `[B]`: the last committed token, whose row is `length[b]`, at rotary position `position[b]`;
        rows: the anchor and the drafts, 2 .. block_size. The rest as of `BlockAttention`.
        """
        c = self.config
        ids = torch.cat([anchor[:, None], anchor.new_full((anchor.shape[0], rows - 1), c.mask_token_id)], dim=1)
        x = target.embed(ids)
        if c.input_embedding_scale != 1.0:
            x = x * c.input_embedding_scale
        cos, sin = rope(position[:, None] + torch.arange(rows, device=position.device), c.head_dim, c.rope_theta)
        attention = BlockAttention(state, c.layers, slots, length, live, rows, kv_len, first_slot)
        return self.through(x, cos, sin, attention)[:, 1:].contiguous()

    def through(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attention: BlockAttention) -> torch.Tensor:
        """All layers and the final norm over embedded blocks `[B, T, H]`."""
        more = None
        for layer in self.layers:
            x, more = layer(x, more, cos, sin, attention)
        return self.norm.after(x, more)[0]

    def propose(
        self,
        target: Target,
        hidden: torch.Tensor,
        anchor: torch.Tensor,
        draws: Draws | None = None,
        most: int | None = None,
    ) -> Proposal:
        """Tokens for the hidden rows `[B, n, H]` of `draft`: the likeliest, or with `draws` drawn ones, of the `most`
        likeliest alone where that is given."""
        logits = target.logits(hidden)
        if draws is None:
            return Proposal(logits.argmax(dim=-1))  # what scales and caps logits keeps their order
        if most is not None and most < logits.shape[-1]:
            logits, ids = logits.topk(most, dim=-1)
            place, probability = choose(self.capped(logits), draws.temperature[:, None], draws.noise(ids))
            return Proposal(ids.gather(-1, place[..., None])[..., 0], probability, ids)
        scores = self.capped(logits)
        every = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
        tokens, probability = choose(scores, draws.temperature[:, None], draws.noise(every))
        return Proposal(tokens, probability, every)

    def capped(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits with their multiplier and soft cap, in fp32."""
        scores, cap = logits.float() * self.config.output_multiplier, self.config.final_logit_softcapping
        return scores if cap is None else cap * torch.tanh(scores / cap)

    def _context_layers(self) -> list[Linear]:
        """k and v of each layer in turn: the context's product has `layers * 2 * Hkv * D` outputs."""
        return [projection for a in (layer.self_attn for layer in self.layers) for projection in (a.k_proj, a.v_proj)]

    def _context_plainly(self, fused: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(fused) for layer in self._context_layers()], dim=-1)

    def _context_product(self, how: Preparation) -> Callable[[torch.Tensor], torch.Tensor]:
        layers = self._context_layers()
        if any(layer.held is not None for layer in layers):
            return how.copied(layers).whole
        weight = torch.cat([layer.weight.detach() for layer in layers])
        return partial(linear, weight=weight, packed=pack(weight) if how.pack else None)

    def _context_scale(self) -> torch.Tensor:
        """Scales of the k norms, fp32 `[layers, 1, D]`."""
        return torch.stack([layer.self_attn.k_norm.scale for layer in self.layers])[:, None]


def rope(position: torch.Tensor, dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin fp32 `[..., dim]` for positions `[...]`; pairs are i and i + dim / 2."""
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float, device=position.device) / dim)
    angles = position[..., None].float() * inverse
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def turned(x: torch.Tensor, scale: torch.Tensor, eps: float, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The heads x `[..., D]` normalised, scaled and turned, in fp32, rounded once to x's dtype."""
    return rotate(normalised(x.float(), eps) * scale, cos, sin).to(x.dtype)
