"""The shapes, weights and tokenizer of the small checkpoint that the tests of the engine use."""

import json

import tokenizers
import torch

from ocria.model.image import ImageConfig
from ocria.model.tokens import Tokenizer

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
IM_END, VISION_START, VISION_END, IMAGE_PAD = 258, 259, 260, 261
VOCAB = 272

CONFIG = {
    "model_type": "qwen3_5",
    "image_token_id": IMAGE_PAD,
    "video_token_id": 270,
    "vision_start_token_id": VISION_START,
    "vision_end_token_id": VISION_END,
    "tie_word_embeddings": True,
    "eos_token_id": IM_END,
    "text_config": {
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 12,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
        "tie_word_embeddings": True,
        "eos_token_id": IM_END,
    },
    "vision_config": {
        "model_type": "qwen3_5_vision",
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 48,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "num_position_embeddings": 16,
    },
}
IMAGE = ImageConfig(patch_size=8, min_pixels=256, max_pixels=1 << 20, image_mean=(0.5,) * 3, image_std=(0.5,) * 3)


def random_weights(network: torch.nn.Module, seed: int) -> None:
    """Large enough that logits are well apart and the text is not one repeated token."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in network.named_parameters():
            scale = 1.0 if "embed_tokens" in name else 2.0 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.3
            p.copy_(torch.randn(p.shape, generator=generator) * scale)
            if name.endswith("A_log"):
                p.abs_()


def byte_tokenizer(folder) -> Tokenizer:
    """Token i is byte i; 256.. are the special tokens."""
    alphabet = _byte_alphabet()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={alphabet[b]: b for b in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}), encoding="utf-8")
    return Tokenizer(folder)


def _byte_alphabet() -> list[str]:
    """The printable stand-in of each byte in byte-level tokenizers (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in plain}
    table |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in table)}
    return [table[byte] for byte in range(256)]
