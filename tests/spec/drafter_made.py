"""Small drafters with random weights, the files that describe them, and something to draft for."""

import json

import torch
from safetensors.torch import save_file

from ocria.spec.config import DrafterConfig
from ocria.spec.load import build


def published_4b() -> dict:
    """The keys of Qwen3.5-4B-DFlash's config.json that shape it."""
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": 2560,
        "intermediate_size": 9216,
        "num_hidden_layers": 6,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
        "max_position_embeddings": 262144,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "sliding_window": 2048,
        "use_sliding_window": True,
        "max_window_layers": 6,
        "num_target_layers": 32,
        "vocab_size": 248320,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "dflash_config": {
            "block_size": 16,
            "mask_token_id": 248070,
            "target_layer_ids": [1, 5, 9, 13, 17, 21, 25, 29],
        },
    }


def published_dflash2() -> dict:
    """The published DFlash2 drafter of a model with 52 layers, as `z-lab/dflash` keeps it among its tests."""
    return {
        "architectures": ["DFlash2DraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 200000,
        "is_causal": False,
        "dflash_config": {
            "block_size": 16,
            "conv_group_size": 16,
            "conv_kernel_size": 2,
            "final_logit_softcapping": 20.0,
            "mask_token_id": 201818,
            "output_multiplier": 0.19611613513818404,
            "selector_rank": 256,
            "selector_top_k": 16,
            "target_layer_ids": [1, 13, 25, 37, 49],
        },
        "dtype": "bfloat16",
        "eos_token_id": 200001,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 6656,
        "initializer_range": 0.02,
        "intermediate_size": 19968,
        "layer_types": ["sliding_attention"] * 5,
        "max_position_embeddings": 131072,
        "max_window_layers": 5,
        "model_type": "qwen3",
        "num_attention_heads": 32,
        "num_hidden_layers": 5,
        "num_key_value_heads": 8,
        "num_target_layers": 52,
        "pad_token_id": 200018,
        "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
        "sliding_window": 2048,
        "tie_word_embeddings": False,
        "transformers_version": "5.15.0",
        "use_cache": False,
        "use_sliding_window": True,
        "vocab_size": 202048,
    }


def small(version: int = 1, *, top: dict | None = None, **draft) -> dict:
    """A small config.json; `top` and further keys change it and its dflash_config. Sizes are odd where they may be."""
    data = {
        "architectures": ["DFlashDraftModel" if version == 1 else "DFlash2DraftModel"],
        "model_type": "qwen3",
        "hidden_size": 48,
        "intermediate_size": 72,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 10,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
        "max_position_embeddings": 512,
        "num_target_layers": 9,
        "vocab_size": 211,
        "dflash_config": {"block_size": 7, "mask_token_id": 203, "target_layer_ids": [1, 4, 6]},
    }
    if version == 2:
        sizes = {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 12, "selector_top_k": 5}
        data["dflash_config"] |= sizes
        data["is_causal"] = False
    data |= top or {}
    data["dflash_config"] |= draft
    return data


@torch.no_grad()
def random_drafter(data: dict, generator: torch.Generator, dtype: torch.dtype = torch.float32):
    """A drafter whose norms are far from 1, whose convolutions do something, and whose rows differ clearly."""
    network = build(DrafterConfig.from_dict(data))
    for name, weight in network.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim == 1:
            weight.copy_(1.3 + 0.3 * noise)
        elif "base_kernel" in name:
            weight.add_(0.4 * noise)
        elif "codebook" in name:
            weight.copy_(noise)
        else:
            weight.copy_(1.5 * noise / weight.shape[1] ** 0.5)
    return network.to(dtype).eval().requires_grad_(False)


class RandomTarget:
    """Embeddings and a head; the hidden states of a target are any tensors."""

    def __init__(self, data: dict, generator: torch.Generator, dtype: torch.dtype = torch.float32):
        shape = data["vocab_size"], data["hidden_size"]
        self.embedding = torch.randn(shape, generator=generator).to(dtype)
        self.head = (2 * torch.randn(shape, generator=generator) / shape[1] ** 0.5).to(dtype)

    def embed(self, ids):
        return torch.nn.functional.embedding(ids, self.embedding)

    def logits(self, hidden):
        return torch.nn.functional.linear(hidden, self.head)


def write_folder(folder, data: dict, tensors: dict[str, torch.Tensor]):
    (folder / "config.json").write_text(json.dumps(data), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder
