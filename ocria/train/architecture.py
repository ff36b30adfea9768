"""The shape of ocria-nano as a Hugging Face config.json, and the small files that go with its weights."""

import json
from pathlib import Path

from ocria.model.config import ModelConfig
from ocria.model.line import HEIGHT, MAX_WIDTH
from ocria.model.profiles import PROFILE_FILE, Profile
from ocria.train import vocabulary as V

CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
    "image_token_id": V.IMAGE_PAD,
    "video_token_id": V.VIDEO_PAD,
    "vision_start_token_id": V.VISION_START,
    "vision_end_token_id": V.VISION_END,
    "text_config": {
        "model_type": "qwen3_5_text",
        "vocab_size": V.VOCAB,
        "hidden_size": 256,
        "intermediate_size": 640,
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "eos_token_id": V.IM_END,
        "pad_token_id": V.ENDOFTEXT,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
    },
    "vision_config": {
        "model_type": "qwen3_5_vision",
        "depth": 4,
        "hidden_size": 192,
        "intermediate_size": 576,
        "num_heads": 4,
        "out_hidden_size": 256,
        "patch_size": HEIGHT // 2,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "num_position_embeddings": 16,
    },
}

# No chat header: a line is read hundreds of times a page, and each prompt token is a row of prefill.
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for item in message.content %}"
    "{%- if item.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- elif item.type == 'text' %}{{- item.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}"
    "{%- if message.role == 'assistant' %}{{- '<|im_end|>' }}{%- endif %}"
    "{%- endfor %}"
)


def model_config() -> ModelConfig:
    """CONFIG, read as any checkpoint's."""
    return ModelConfig.from_dict(CONFIG, where="ocria-nano")


def write_companions(folder: Path) -> None:
    """config.json, tokenizer, chat template, profile, image and generation settings."""

    def write(name: str, data: dict) -> None:
        (folder / name).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    write("config.json", CONFIG)
    write("tokenizer.json", tokenizer_json())
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
    })  # fmt: skip
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    write("preprocessor_config.json", {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"shortest_edge": HEIGHT * HEIGHT, "longest_edge": HEIGHT * MAX_WIDTH},
        "patch_size": HEIGHT // 2,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    })  # fmt: skip
    # A line of 40 px tokens holds about two characters a token; accents and typographic quotes are 2 and 3 bytes.
    Profile(
        name="ocria-nano", unit="line", prompt="", dialect="text", max_output_tokens=640,
        max_output_per_image_token=6.0,
    ).save(folder / PROFILE_FILE)  # fmt: skip
    write("generation_config.json", {"eos_token_id": V.IM_END, "pad_token_id": V.ENDOFTEXT, "do_sample": False})


def tokenizer_json() -> dict:
    """A byte-level tokenizer without merges for the `tokenizers` package: id = byte value, specials behind."""
    letters = byte_letters()
    special = [
        {"id": 256 + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, name in enumerate(V.SPECIALS)
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {letters[i]: i for i in range(256)}, "merges": [],
        },
    }  # fmt: skip


def byte_letters() -> list[str]:
    """The printable stand-in of each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = [""] * 256
    extra = 0
    for byte in range(256):
        if byte in printable:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters
