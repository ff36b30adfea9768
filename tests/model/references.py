"""Small checkpoints drawn afresh and saved by transformers itself, and both ways of running them.

transformers' own initialisation (std 0.02) makes logits that are nearly equal, so that a wrong detail would not
show and greedy decoding would hang on rounding. Every weight is drawn again, wide enough that each norm, bias,
decay and gate matters.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
)

from ocria.model.network import Qwen35
from ocria.model.positions import rope_positions
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope

VOCAB = 420
IMAGE_TOKEN = 400  # any id will do; the tokenizer of the tests has fewer tokens

TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "eos_token_id": None,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.5,
        "mrope_section": [3, 3, 2],
        "mrope_interleaved": True,
    },
}
VISION = {
    "depth": 2,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_heads": 3,
    "out_hidden_size": 64,
    "patch_size": 8,
    "num_position_embeddings": 36,
}


@dataclass(frozen=True)
class Shape:
    """Differences from TEXT and VISION; `vision` None is a text-only checkpoint."""

    text: dict = field(default_factory=dict)
    vision: dict | None = field(default_factory=dict)
    tied: bool = True


SMALL = 2e-3
PUBLISHED_ROPE = {"rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}

SHAPES = {
    # Gated DeltaNet value heads over key heads: 2, as in the 4B and 9B models
    "gdn2 tied": Shape(),
    # ratio 1, as in the 0.8B and 2B models, untied
    "gdn1 untied": Shape({"linear_num_key_heads": 3, "linear_num_value_heads": 3}, tied=False),
    # ratio 3, as in the 27B model; 6 query heads over 2
    "gdn3 tied": Shape({"linear_num_value_heads": 6, "num_attention_heads": 6}, {"num_heads": 2}),
    # the published head sizes and rotary parameters
    "published heads": Shape(
        {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "rope_parameters": TEXT["rope_parameters"] | PUBLISHED_ROPE,
        },
        {"hidden_size": 64, "num_heads": 1, "patch_size": 16, "num_position_embeddings": 2304},
        tied=False,
    ),
    # another order of layers, every head its own keys, a short convolution, a large eps, patches of three frames
    "odd vision": Shape(
        {
            "num_hidden_layers": 3,
            "layer_types": ["full_attention", "linear_attention", "linear_attention"],
            "num_key_value_heads": 4,
            "linear_conv_kernel_dim": 3,
            "rms_norm_eps": 1e-2,
        },
        {"patch_size": 6, "spatial_merge_size": 3, "temporal_patch_size": 3, "depth": 3},
    ),
    "text only tied": Shape(vision=None),
    "text only untied": Shape({"linear_num_value_heads": 6}, vision=None, tied=False),
}
WITH_IMAGES = [name for name, shape in SHAPES.items() if shape.vision is not None]


def build(shape: Shape) -> torch.nn.Module:
    """transformers' model of a shape in fp32, every weight drawn afresh."""
    text = TEXT | shape.text | {"tie_word_embeddings": shape.tied}
    if shape.vision is None:
        config = Qwen3_5TextConfig(**text)
        model = Qwen3_5ForCausalLM(config)
    else:
        config = Qwen3_5Config(
            text_config=text,
            vision_config=VISION | shape.vision,
            image_token_id=IMAGE_TOKEN,
            tie_word_embeddings=shape.tied,
        )
        model = Qwen3_5ForConditionalGeneration(config)
    redraw(model)
    return model.eval()


def redraw(model: torch.nn.Module) -> None:
    """Random weights under which every part of the network changes the logits."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight.copy_(torch.empty_like(weight).uniform_(0.05, 4).log())
            elif name.endswith("dt_bias"):
                weight.copy_(torch.randn_like(weight) - 1)
            elif "norm" in name and name.endswith("weight"):
                # The decoder's norms are zero-centred; the gated one and the vision encoder's are plain.
                centre = 1.0 if ".visual." in name or "linear_attn.norm" in name else 0.0
                weight.copy_(centre + 0.3 * torch.randn_like(weight))
            elif "patch_embed" in name and weight.ndim == 1:
                weight.copy_(SMALL * torch.randn_like(weight))
            elif weight.ndim == 1:
                weight.copy_(0.3 * torch.randn_like(weight))
            elif "pos_embed" in name:
                weight.copy_(SMALL * torch.randn_like(weight))  # shows a wrong eps of the layer norms
            elif "embed_tokens" in name:
                weight.copy_(0.5 * torch.randn_like(weight))
            elif "conv1d" in name:
                # Small, so that q, k and v are near the eps of the norms that follow. It shows a wrong eps, and
                # the output of a row that sees little (the first) is not blown up from near zero with its rounding.
                weight.copy_(0.005 * torch.randn_like(weight))
            else:
                inputs = math.prod(weight.shape[1:])
                gain = 3.0 if "lm_head" in name else SMALL if "patch_embed" in name else 1.4
                weight.copy_(gain * torch.randn_like(weight) / math.sqrt(inputs))


def write_companions(folder: Path, tokenizer_json: str, shape: Shape) -> None:
    """The files beside the weights that a checkpoint has and `save_pretrained` of a model does not write."""
    (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    if shape.vision is not None:
        vision = VISION | shape.vision
        settings = {
            "patch_size": vision["patch_size"],
            "merge_size": vision.get("spatial_merge_size", 2),
            "temporal_patch_size": vision.get("temporal_patch_size", 2),
            "size": {"shortest_edge": 100, "longest_edge": 10_000},
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")


@dataclass(frozen=True)
class Prompt:
    """Token ids with placeholders expanded, and the pixels of its images."""

    ids: list[int]
    pixel_values: torch.Tensor | None
    grids: list[tuple[int, int, int]]


def draw_prompt(network: Qwen35, *parts) -> Prompt:
    """A prompt from parts: a number is that much text, a pair an image of so many tokens (rows, columns)."""
    ids, grids = [], []
    vision = network.config.vision
    for part in parts:
        if isinstance(part, tuple):
            merge = vision.spatial_merge_size
            grids.append((1, part[0] * merge, part[1] * merge))
            ids += [IMAGE_TOKEN] * (part[0] * part[1])
        else:
            ids += torch.randint(0, IMAGE_TOKEN, (part,)).tolist()
    patches = sum(rows * columns for _, rows, columns in grids)
    return Prompt(ids, torch.randn(patches, vision.patch_dim) if grids else None, grids)


def reference_inputs(prompt: Prompt) -> dict[str, torch.Tensor]:
    """The prompt as transformers wants it."""
    ids = torch.tensor([prompt.ids])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if prompt.grids:
        inputs["pixel_values"] = prompt.pixel_values
        inputs["image_grid_thw"] = torch.tensor(prompt.grids)
        inputs["mm_token_type_ids"] = (ids == IMAGE_TOKEN).int()
    return inputs


class Driver:
    """Runs prompts through our network by the slots of one state, as an engine would, and keeps the logits.

    `hints`: tell the windows all that the host knows, which lets the network take its shorter ways. `ring`: rows of
    the replay ring, 0 for none.
    """

    def __init__(self, network: Qwen35, slots: int = 1, max_len: int = 200, hints: bool = False, ring: int = 0):
        self.network, self.hints = network, hints
        self.state = DecoderState.allocate(network.config.text, slots + 1, max_len, network.dtype, ring=ring)
        for tensor in self.state.tensors():
            tensor.fill_(float("nan"))  # a slot that is not reset, and the dummy, must not matter
        self.delta: dict[int, int] = {}
        self.length: dict[int, int] = {}
        self.folded: dict[int, int] = {}

    def prefill(self, prompts: dict[int, Prompt], chunks: list[int] | None = None) -> dict[int, torch.Tensor]:
        """Logits [T, V] of whole prompts, by slot. `chunks`: rows of each pass, the rest in a last one."""
        inputs = {slot: self._embed(slot, prompt) for slot, prompt in prompts.items()}
        longest = max(self.length.values())
        logits: dict[int, list[torch.Tensor]] = {slot: [] for slot in prompts}
        start = 0
        for rows in [*(chunks or []), longest]:
            rows = min(rows, longest - start)
            if rows == 0:
                break
            slots = list(prompts)
            count = [max(0, min(rows, self.length[slot] - start)) for slot in slots]
            padding = (len(slots), rows, self.network.config.text.hidden_size)
            hidden = torch.randn(padding, dtype=self.network.dtype)  # what padding holds must not matter
            positions = torch.zeros(3, len(slots), rows, dtype=torch.int64)
            for row, slot in enumerate(slots):
                part = slice(start, start + count[row])
                hidden[row, : count[row]] = inputs[slot][0][part]
                positions[:, row, : count[row]] = inputs[slot][1][:, part]
            out = self._prefill(slots, [start] * len(slots), count, hidden, positions)
            for row, slot in enumerate(slots):
                self.folded[slot] = self.length[slot]
                logits[slot].append(out[row, : count[row]])
            start += rows
        return {slot: torch.cat(parts) for slot, parts in logits.items()}

    def decode(self, tokens: dict[int, int], padding: int = 0) -> dict[int, torch.Tensor]:
        """Logits [V] after one more token in each slot, beside `padding` rows of the dummy slot."""
        slots = [*tokens, *[0] * padding]
        start = [self.length.get(slot, 0) for slot in slots]
        count = [int(slot in tokens) for slot in slots]
        position = torch.tensor([begin + self.delta.get(slot, 0) for slot, begin in zip(slots, start, strict=True)])
        ids = torch.tensor([tokens.get(slot, 0) for slot in slots])
        hidden = self.network.embed(ids)[:, None]
        out = self._step(slots, start, count, hidden, position[None, :, None].expand(3, -1, -1))
        for slot in tokens:
            self.length[slot] += 1
        return {slot: out[row, 0] for row, slot in enumerate(tokens)}

    def greedy(self, prompts: dict[int, Prompt], steps: int, padding: int = 0) -> dict[int, list[int]]:
        """`steps` tokens of each prompt, all in one batch."""
        last = {slot: logits[-1] for slot, logits in self.prefill(prompts).items()}
        made: dict[int, list[int]] = {slot: [] for slot in prompts}
        for _ in range(steps):
            tokens = {slot: int(logits.argmax()) for slot, logits in last.items()}
            for slot, token in tokens.items():
                made[slot].append(token)
            last = self.decode(tokens, padding)
        return made

    def _embed(self, slot: int, prompt: Prompt) -> tuple[torch.Tensor, torch.Tensor]:
        self.state.reset([slot])
        self.length[slot] = len(prompt.ids)
        ids = torch.tensor(prompt.ids)
        hidden = self.network.embed(ids)
        merge = 1
        if prompt.grids:
            hidden[ids == IMAGE_TOKEN] = self.network.encode_image(prompt.pixel_values, prompt.grids)
            merge = self.network.config.vision.spatial_merge_size
        positions, self.delta[slot] = rope_positions(prompt.ids, IMAGE_TOKEN, prompt.grids, merge)
        return hidden, positions

    def _prefill(self, slots, start, count, hidden, positions) -> torch.Tensor:
        cos, sin = self._rope(positions)
        known = {}
        if self.hints:
            known["first_slot"] = self._first(slots)
            known["full"] = min(count) == hidden.shape[1]
            known["fresh"] = max(start) == 0 and 0 not in slots
        end = max(begin + rows for begin, rows in zip(start, count, strict=True))
        cursors = (torch.tensor(values) for values in (slots, start, count))
        window = Window.prefill(*cursors, cos, sin, end, self.state.max_len, **known)
        return self.network.logits(self.network.decoder(hidden, window, self.state))

    def _step(self, slots, start, count, hidden, positions) -> torch.Tensor:
        """One row of each slot."""
        cos, sin = self._rope(positions)
        folded = [self.folded.get(slot, 0) for slot in slots]
        flush = [begin - done + 2 > self.state.ring for begin, done in zip(start, folded, strict=True)]
        cursors = [torch.tensor(values) for values in (slots, start, count)]
        kv_rows = torch.tensor([slot * self.state.max_len + min(row, self.state.max_len - 1)
                                for slot, row in zip(slots, start, strict=True)])  # fmt: skip
        window = Window(
            *cursors, cos, sin, max(start) + 1, torch.tensor(folded), torch.tensor(flush),
            first_slot=self._first(slots) if self.hints else None, kv_rows=kv_rows[:, None],
        )  # fmt: skip
        out = self.network.logits(self.network.decoder(hidden, window, self.state))
        for slot, begin, full in zip(slots, start, flush, strict=True):
            if full:
                self.folded[slot] = begin
        return out

    def _rope(self, positions) -> tuple[torch.Tensor, torch.Tensor]:
        text = self.network.config.text
        return text_rope(positions, text.rotary_dim, text.rope_theta, text.mrope_section)

    @staticmethod
    def _first(slots) -> int | None:
        return slots[0] if slots == list(range(slots[0], slots[0] + len(slots))) else None
