"""Published shapes for models with random weights: the target, its DFlash and DFlash2 drafters, and pages for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SPECIAL = 16
"""Token ids at the end of a vocabulary that no text has; the placeholder of an image is among them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A model without weights. data: as in its `config.json`; drafters: the same by name; pages: height and width of
    page images in pixels; answers: output tokens of their requests, in turn; note: where it is from."""

    name: str
    data: dict[str, Any]
    drafters: dict[str, dict[str, Any]]
    pages: tuple[tuple[int, int], ...]
    answers: tuple[int, ...]
    note: str

    @property
    def text_tokens(self) -> int:
        """Ids below this one are text."""
        return self.data["text_config"]["vocab_size"] - _SPECIAL

    @property
    def image_token(self) -> int:
        return self.data["image_token_id"]


def _model(text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    first = text["vocab_size"] - _SPECIAL
    rope = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_interleaved": True}
    frequencies = text["head_dim"] // 8
    part = frequencies // 3
    rope["mrope_section"] = [frequencies - 2 * part, part, part]
    return {
        "model_type": "qwen3_5",
        "image_token_id": first,
        "video_token_id": first + 1,
        "vision_start_token_id": first + 2,
        "vision_end_token_id": first + 3,
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen3_5_text", "max_position_embeddings": 262144, "linear_conv_kernel_dim": 4,
            "tie_word_embeddings": False, "rope_parameters": rope, **text,
        },
        "vision_config": {
            "model_type": "qwen3_5_vision", "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
            **vision,
        },
    }  # fmt: skip


def _drafter(
    version: int, text: dict[str, Any], layers: int, block: int, taps: list[int], **more: Any
) -> dict[str, Any]:
    """version 1: the last layer sees all, the others slide and are causal inside the block; 2: all slide, none is."""
    own: dict[str, Any] = {"block_size": block, "mask_token_id": text["vocab_size"] - 1, "target_layer_ids": taps}
    kinds = ["sliding_attention"] * layers
    data = {
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 1e7, "rope_type": "default"}, "max_position_embeddings": 262144,
        "hidden_size": text["hidden_size"], "intermediate_size": text["intermediate_size"],
        "num_hidden_layers": layers, "num_target_layers": text["num_hidden_layers"],
        "vocab_size": text["vocab_size"], "sliding_window": 2048, "use_sliding_window": True, **more,
    }  # fmt: skip
    if version == 1:
        kinds[-1] = "full_attention"
    else:
        data |= {"architectures": ["DFlash2DraftModel"], "is_causal": False}
        own |= {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16}
    return data | {"layer_types": kinds, "dflash_config": own}


_TEXT_4B = {
    "vocab_size": 248320, "hidden_size": 2560, "intermediate_size": 9216, "num_hidden_layers": 32,
    "full_attention_interval": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}  # fmt: skip
_VISION_4B = {
    "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560,
    "patch_size": 16, "num_position_embeddings": 2304,
}  # fmt: skip
_HEADS = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
_TAPS = [1, 5, 9, 13, 17, 21, 25, 29]

LARGE = Shape(
    "4b-random",
    _model(_TEXT_4B, _VISION_4B),
    {
        "dflash": _drafter(1, _TEXT_4B, 6, 16, _TAPS, **_HEADS),
        "dflash2": _drafter(2, _TEXT_4B, 5, 16, _TAPS, **_HEADS),
    },
    # 1064, 1408, 1632 and 2520 image tokens: A4 at 90 to 140 dpi.
    ((1216, 896), (1408, 1024), (1536, 1088), (1920, 1344)),
    (256, 384, 512, 384),
    "Qwen3.5-4B and its DFlash drafter as published; no DFlash2 drafter of this family is, so that one has the form of "
    "those of larger models (5 sliding layers, block 16, selector of 16 tokens and rank 256) at the width of DFlash",
)

_TEXT_TINY = {
    "vocab_size": 600, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "full_attention_interval": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
_VISION_TINY = {
    "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64, "patch_size": 16,
    "num_position_embeddings": 64,
}  # fmt: skip
_HEADS_TINY = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}

TINY = Shape(
    "tiny-random",
    _model(_TEXT_TINY, _VISION_TINY),
    {
        "dflash": _drafter(1, _TEXT_TINY, 2, 16, [0, 2], **_HEADS_TINY),
        "dflash2": _drafter(2, _TEXT_TINY, 2, 16, [0, 2], **_HEADS_TINY),
    },
    ((128, 96), (160, 128), (96, 96), (192, 128)),
    (24, 37, 48, 37),
    "made up, for tests",
)

SHAPES = {shape.name: shape for shape in (LARGE, TINY)}
