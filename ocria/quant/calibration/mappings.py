"""Where magnitude can move between a layer and what is before it without changing the function of the network.

| producer | consumers | free factors |
|---|---|---|
| `input_layernorm` of an attention layer | q, k, v | one a column |
| `input_layernorm` of a Gated DeltaNet layer | in_proj_qkv, z, b, a | one a column |
| `post_attention_layernorm` | gate, up | one a column |
| rows of `up_proj` | down | one a column, as the SiLU is on the other factor |
| rows of `v_proj` | o | one a channel of a key-value head: its query heads share it; the sigmoid gate is elementwise |
| `linear_attn.norm` | out_proj | one a channel of a head, which all heads share, as they share the norm's weight |

All consumers of a norm are scaled, also those that stay high. The last norm is left as it is: drafters share the head
behind it.
"""

from dataclasses import dataclass

import torch

from ocria.model.network import Qwen35

LAYERS = "model.language_model.layers"


@dataclass(frozen=True, slots=True)
class Group:
    """A producer whose outputs are divided by s, and the consumers whose columns are multiplied by it.

    producer: a norm, or a linear layer. consumers: linear layers of one input of K columns. parent: the module whose
    output tells what an error of the consumers does. shape: (outer, repeats, inner), of which K is the product: there
    are outer * inner free factors, and column (o, r, i) has factor (o, i).
    """

    producer: str
    consumers: tuple[str, ...]
    parent: str
    shape: tuple[int, int, int]

    @property
    def columns(self) -> int:
        outer, repeats, inner = self.shape
        return outer * repeats * inner

    def spread(self, s: torch.Tensor) -> torch.Tensor:
        """The factors of all columns `[K]` from the free ones `[outer * inner]`."""
        outer, repeats, inner = self.shape
        return s.view(outer, 1, inner).expand(outer, repeats, inner).reshape(-1)

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        """The mean of the columns that share a factor: `[K]` -> `[outer * inner]`."""
        return x.view(self.shape).mean(1).flatten()


def groups(network: Qwen35) -> list[Group]:
    """Of every decoder layer. Those whose producer is a linear layer come before the one that has it as a consumer: to
    divide its rows changes how it is rounded."""
    text, found = network.config.text, []
    for index, kind in enumerate(text.layer_types):
        layer = f"{LAYERS}.{index}"
        norm = (1, 1, text.hidden_size)
        if kind == "full_attention":
            mixer, heads = f"{layer}.self_attn", text.num_key_value_heads
            inputs = tuple(f"{mixer}.{leaf}" for leaf in ("q_proj", "k_proj", "v_proj"))
            producer, output = f"{mixer}.v_proj", f"{mixer}.o_proj"
            shape = (heads, text.num_attention_heads // heads, text.head_dim)
        else:
            mixer = f"{layer}.linear_attn"
            inputs = tuple(f"{mixer}.in_proj_{leaf}" for leaf in ("qkv", "z", "b", "a"))
            producer, output = f"{mixer}.norm", f"{mixer}.out_proj"
            shape = (1, text.linear_num_value_heads, text.linear_value_head_dim)
        mlp = f"{layer}.mlp"
        gate, up, down = (f"{mlp}.{leaf}" for leaf in ("gate_proj", "up_proj", "down_proj"))
        found += [
            Group(producer, (output,), output, shape),
            Group(f"{layer}.input_layernorm", inputs, mixer, norm),
            Group(up, (down,), down, (1, 1, text.intermediate_size)),
            Group(f"{layer}.post_attention_layernorm", (gate, up), mlp, norm),
        ]
    return found


def joined(network: Qwen35) -> list[tuple[str, ...]]:
    """Layers that engines compute as one product, whose NVFP4 weights should share their multiplier. The gates a and b
    of a Gated DeltaNet, which stay high, are left out."""
    found = []
    for group in groups(network):
        names = tuple(name for name in group.consumers if not name.endswith(("in_proj_a", "in_proj_b")))
        if len(names) > 1:
            found.append(names)
    return found
