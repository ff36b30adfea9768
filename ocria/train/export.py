"""Write a learner as a checkpoint folder that ocria and transformers load unchanged, and read one back."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ocria.spec.vision import CONFIG, WEIGHTS, ReadingConfig
from ocria.train.architecture import write_companions
from ocria.train.charset import CHARSET
from ocria.train.learner import Learner
from ocria.train.vocabulary import CTC_FRAMES


def export(learner: Learner, folder: Path) -> None:
    """bf16 weights (A_log and the gated norms fp32), CTC head beside them, companions."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(network_tensors(learner), folder / "model.safetensors", metadata={"format": "pt"})
    ctc = {"weight": learner.ctc.weight, "bias": learner.ctc.bias}
    save_file({name: t.detach().bfloat16().contiguous() for name, t in ctc.items()}, folder / WEIGHTS)
    ReadingConfig(CTC_FRAMES, CHARSET).save(folder / CONFIG)
    write_companions(folder)


def network_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    """The network's tensors under their checkpoint names; the gray patch embedding spread over channels and frames."""
    vision = learner.config.vision
    tensors = {}
    for name, tensor in learner.network.state_dict().items():
        tensor = tensor.detach()
        if name.endswith("patch_embed.proj.weight"):
            copies = vision.in_channels * vision.temporal_patch_size
            tensor = (tensor / copies).view(-1, 1, 1, vision.patch_size, vision.patch_size)
            tensor = tensor.expand(-1, vision.in_channels, vision.temporal_patch_size, -1, -1)
        keep = name.endswith(("A_log", "linear_attn.norm.weight"))
        tensors[name] = tensor.to(torch.float32 if keep else torch.bfloat16).contiguous().clone()
    return tensors


@torch.no_grad()
def load_exported(learner: Learner, folder: Path) -> None:
    """Weights and CTC head of an exported folder into `learner`, as they were rounded to bf16.

    Raises FileNotFoundError where a file is missing, RuntimeError where names or shapes are not the learner's.
    """
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("patch_embed.proj.weight")]:
        tensors[name] = tensors[name].float().sum((1, 2)).flatten(1)
    learner.network.load_state_dict(tensors)
    learner.ctc.load_state_dict(load_file(folder / WEIGHTS))
