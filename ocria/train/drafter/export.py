"""A drafter as the folder that `ocria.spec.load.load_drafter` reads, and back into training."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from ocria.errors import CheckpointError
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash import DFlash
from ocria.spec.dflash2 import DFlash2
from ocria.spec.load import build
from ocria.train.drafter.shape import as_version_2, begin_version_2


def export(network: DFlash, config: dict[str, Any], folder: Path) -> None:
    """config.json and bf16 weights; whoever reads the folder meanwhile gets the old weights or the new ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    part = folder / "model.safetensors.part"
    tensors = {name: p.detach().to("cpu", torch.bfloat16).contiguous() for name, p in network.named_parameters()}
    save_file(tensors, part, metadata={"format": "pt"})
    part.replace(folder / "model.safetensors")


@torch.no_grad()
def train_on(
    folder: Path, version: int, generator: torch.Generator, layers: int | None = None
) -> tuple[DFlash, dict[str, Any]]:
    """The drafter of a folder in fp32, to be trained on, and its config.json. A DFlash drafter may become a DFlash2
    that drafts the same at first. layers: keep so many, the first and the last among them. Raises CheckpointError for
    the other direction, for more layers than there are and for weights of another shape."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    tensors = load_file(folder / "model.safetensors")
    if layers not in (None, config["num_hidden_layers"]):
        config, tensors = _with_layers(config, tensors, layers, folder)
    has = DrafterConfig.from_dict(config).version
    if has > version:
        raise CheckpointError("a DFlash2 drafter cannot become a DFlash one", path=folder, cure="Use --version 2.")
    if has < version:
        config = as_version_2(config)
    network = build(DrafterConfig.from_dict(config))
    if has < version and isinstance(network, DFlash2):
        begin_version_2(network, generator)
    missing = network.state_dict().keys() - tensors.keys()
    new = {name for name in missing if "_conv." in name or "candidate_selector." in name} if has < version else set()
    if missing != new or not tensors.keys() <= network.state_dict().keys():
        raise CheckpointError("weights and config.json do not belong together", path=folder)
    network.load_state_dict(tensors, strict=False)
    return network, config


def _with_layers(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], layers: int, folder: Path
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Both with so many of the layers, evenly spaced."""
    count = config["num_hidden_layers"]
    if not 0 < layers < count:
        raise CheckpointError(f"it has {count} layers, and {layers} were asked for", path=folder)
    kept = [round(i * (count - 1) / max(1, layers - 1)) for i in range(layers)]
    out = {name: tensor for name, tensor in tensors.items() if not name.startswith("layers.")}
    for new, old in enumerate(kept):
        begin = f"layers.{old}."
        out |= {f"layers.{new}.{n.removeprefix(begin)}": t for n, t in tensors.items() if n.startswith(begin)}
    kinds = {"layer_types": [config["layer_types"][old] for old in kept]} if "layer_types" in config else {}
    return config | {"num_hidden_layers": layers} | kinds, out
