"""A small random checkpoint of the architecture, whole: configuration, weights, tokenizer, image preprocessing."""

import json
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import load_file, save_file

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.weights import list_tensors
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.quant.formats.contents import plain_linears

VOCAB = 272
# Columns are multiples of 16; some sides are above 128 and no multiple of it.
CONFIG = {
    "model_type": "qwen3_5",
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "image_token_id": 261,
    "vision_start_token_id": 259,
    "vision_end_token_id": 260,
    "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 144,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 24,
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "qwen3_5_vision",
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "num_position_embeddings": 16,
    },
}
PREPROCESSOR = {
    "patch_size": 8,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "size": {"shortest_edge": 256, "longest_edge": 65536},
}


def make_checkpoint(
    folder: Path, rng: torch.Generator, *, dtype: torch.dtype = torch.float32, tied: bool = True, shards: int = 1
) -> Path:
    """A checkpoint with a multi-token prediction block, which is never loaded, and a chat template beside it."""
    config = json.loads(json.dumps(CONFIG))
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = tied
    tensors = {}
    for name, p in Qwen35(ModelConfig.from_dict(config)).named_parameters():
        scale = 1.0 if "embed_tokens" in name else 1.6 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.3
        values = torch.randn(p.shape, generator=rng) * scale
        kept = name.endswith(("linear_attn.A_log", "linear_attn.norm.weight"))
        tensors[name] = values.abs() if name.endswith("A_log") else values if kept else values.to(dtype)
    tensors["mtp.fc.weight"] = torch.randn(64, 128, generator=rng).to(dtype)
    tensors["mtp.layers.0.mlp.up_proj.weight"] = torch.randn(144, 64, generator=rng).to(dtype)
    save(folder, tensors, shards)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    alphabet = {f"<{i}>": i for i in range(VOCAB)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(alphabet, unk_token="<0>"))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def save(folder: Path, tensors: dict[str, torch.Tensor], shards: int = 1) -> None:
    """The tensors in one file, or dealt to several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    placed = {name: f"part-{index % shards}.safetensors" for index, name in enumerate(sorted(tensors))}
    for file in set(placed.values()):
        save_file({name: tensors[name] for name in placed if placed[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: t for file in sorted(folder.glob("*.safetensors")) for name, t in load_file(file).items()}


def edit_json(path: Path, edit) -> None:
    """Rewrite a JSON file after `edit` of its object."""
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def text_linears(folder: Path) -> list[str]:
    """Names of the linear layers of the text decoder."""
    return [name for name in plain_linears(list_tensors(folder)) if ".language_model." in name]


@torch.no_grad()
def logits(network: Qwen35, ids: torch.Tensor) -> torch.Tensor:
    """Logits `[T, V]` of one sequence of tokens."""
    text = network.config.text
    positions = torch.arange(len(ids)).expand(3, 1, -1)
    window = Window.whole(*text_rope(positions, text.rotary_dim, text.rope_theta, text.mrope_section), 1)
    return network.logits(network.decoder(network.embed(ids[None]), window, None))[0]
