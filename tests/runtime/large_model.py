"""The shapes of the 4B model that many document models are tuned from; nothing of this size is ever allocated."""

import copy

from small_model import CONFIG

from ocria.model.config import ModelConfig

_TEXT = {
    "vocab_size": 248320, "hidden_size": 2560, "intermediate_size": 9216, "num_hidden_layers": 32,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
    "layer_types": [*["linear_attention"] * 3, "full_attention"] * 8, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}  # fmt: skip
_VISION = {
    "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560,
    "patch_size": 16, "num_position_embeddings": 2304,
}  # fmt: skip


def large_config() -> ModelConfig:
    data = copy.deepcopy(CONFIG)
    data["text_config"] |= _TEXT
    data["vision_config"] |= _VISION
    return ModelConfig.from_dict(data)
