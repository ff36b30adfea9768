"""The published sizes of the family, as configurations: the parameter counts are theirs, without MTP."""

import pytest
import torch

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35

SMALL_VISION = {"hidden_size": 1024, "depth": 24, "intermediate_size": 4096}
SIZES = {
    "0.8B": (
        852_985_920,
        {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 3584},
        {"num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_value_heads": 16},
        {"hidden_size": 768, "depth": 12, "intermediate_size": 3072, "num_heads": 12},
    ),
    "2B": (
        2_213_241_664,
        {"hidden_size": 2048, "num_hidden_layers": 24, "intermediate_size": 6144},
        {"num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_value_heads": 16},
        SMALL_VISION,
    ),
    "4B": (
        4_539_265_536,
        {"hidden_size": 2560, "num_hidden_layers": 32, "intermediate_size": 9216},
        {"num_attention_heads": 16, "num_key_value_heads": 4, "linear_num_value_heads": 32},
        SMALL_VISION,
    ),
    "9B": (
        9_409_813_744,
        {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 12288},
        {"num_attention_heads": 16, "num_key_value_heads": 4, "linear_num_value_heads": 32},
        {"hidden_size": 1152, "depth": 27, "intermediate_size": 4304},
    ),
}


def published_config(size: str) -> dict:
    """A `config.json` as the family's repositories have it."""
    _, body, heads, vision = SIZES[size]
    tied = size != "9B"
    text = {
        "model_type": "qwen3_5_text",
        "vocab_size": 248320,
        "head_dim": 256,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "eos_token_id": 248044,
        "full_attention_interval": 4,
        "initializer_range": 0.02,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": tied,
        "use_cache": True,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10_000_000,
            "rope_type": "default",
        },
    }
    vision = {
        "model_type": "qwen3_5",
        "deepstack_visual_indexes": [],
        "hidden_act": "gelu_pytorch_tanh",
        "in_channels": 3,
        "initializer_range": 0.02,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": body["hidden_size"],
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    } | vision
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "image_token_id": 248056,
        "video_token_id": 248057,
        "vision_start_token_id": 248053,
        "vision_end_token_id": 248054,
        "tie_word_embeddings": tied,
        "transformers_version": "4.57.0.dev0",
        "text_config": text | body | heads,
        "vision_config": vision,
    }


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts(size):
    with torch.device("meta"):
        network = Qwen35(ModelConfig.from_dict(published_config(size)))
    assert all(parameter.is_meta for parameter in network.parameters())
    assert sum(parameter.numel() for parameter in network.parameters()) == SIZES[size][0]


def test_names_equal_transformers():
    transformers = pytest.importorskip("transformers")
    data = published_config("4B")
    with torch.device("meta"):
        ours = Qwen35(ModelConfig.from_dict(data))
        theirs = transformers.Qwen3_5ForConditionalGeneration(transformers.Qwen3_5Config.from_dict(data))
    shapes = {name: parameter.shape for name, parameter in theirs.named_parameters()}
    assert {name: parameter.shape for name, parameter in ours.named_parameters()} == shapes
