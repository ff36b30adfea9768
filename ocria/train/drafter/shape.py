"""The config.json of a new drafter, and its random start."""

from typing import Any

import torch

from ocria.model.config import TextConfig
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash import DFlash
from ocria.spec.dflash2 import DFlash2
from ocria.spec.load import build

_ARCHITECTURES = {1: "DFlashDraftModel", 2: "DFlash2DraftModel"}
_SIZES_OF_2 = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 64, "selector_top_k": 8}
_START_OF_CODEBOOK = 0.5


def drafter_config(
    target: TextConfig, *, version: int, mask_token_id: int, taps: list[int], layers: int, block_size: int
) -> dict[str, Any]:
    """A drafter of the target's width, heads and MLP: every row sees its whole block and all of the context."""
    draft = {"block_size": block_size, "mask_token_id": mask_token_id, "target_layer_ids": list(taps)}
    return {
        "architectures": [_ARCHITECTURES[version]],
        "model_type": "qwen3",
        "is_causal": False,
        "dtype": "bfloat16",
        "hidden_size": target.hidden_size,
        "intermediate_size": target.intermediate_size,
        "num_hidden_layers": layers,
        "num_attention_heads": target.num_attention_heads,
        "num_key_value_heads": target.num_key_value_heads,
        "head_dim": target.head_dim,
        "rms_norm_eps": target.rms_norm_eps,
        "rope_theta": target.rope_theta,
        "max_position_embeddings": target.max_position_embeddings,
        "layer_types": ["full_attention"] * layers,
        "num_target_layers": target.num_hidden_layers,
        "vocab_size": target.vocab_size,
        "dflash_config": draft | (_SIZES_OF_2 if version == 2 else {}),
    }


def as_version_2(config: dict[str, Any]) -> dict[str, Any]:
    """The config.json of a DFlash drafter, made that of a DFlash2 drafter."""
    return config | {"architectures": [_ARCHITECTURES[2]], "dflash_config": config["dflash_config"] | _SIZES_OF_2}


@torch.no_grad()
def new_drafter(config: dict[str, Any], final_scale: torch.Tensor, generator: torch.Generator) -> DFlash:
    """Random fan-in scaled matrices, silent branches. final_scale `[H]`: of the target's last norm, since the head is
    the target's too."""
    network = build(DrafterConfig.from_dict(config))
    for name, p in network.named_parameters():
        if p.ndim == 2 and "codebook" not in name:
            p.normal_(std=p.shape[1] ** -0.5, generator=generator)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                p.mul_(0.2)
    network.norm.weight.copy_(0.3 * final_scale)  # unsure of itself
    if isinstance(network, DFlash2):
        begin_version_2(network, generator)
    return network


@torch.no_grad()
def begin_version_2(network: DFlash2, generator: torch.Generator) -> None:
    """Convolutions that change nothing, and a selector without effect: the drafter starts as the DFlash in it."""
    for layer in network.layers:
        for conv in (layer.attention_conv, layer.mlp_conv):
            conv.base_kernel.zero_()
            conv.base_kernel[:, 0] = 1
            conv.kernel_projection.weight.zero_()
    selector = network.candidate_selector
    selector.predecessor_codebook.normal_(std=_START_OF_CODEBOOK, generator=generator)
    selector.successor_codebook.zero_()
    projection = selector.hidden_projection.weight
    projection.normal_(std=projection.shape[1] ** -0.5, generator=generator)
