"""Changing a written checkpoint, and how the change must be refused."""

from pathlib import Path

import pytest
from checkpoint_made import edit_json, save, tensors_of

from ocria.errors import CheckpointError
from ocria.model.checkpoint import load_model
from ocria.model.weights import list_tensors
from ocria.quant.formats import read_quantized

UP = "model.language_model.layers.0.mlp.up_proj"


def edit_config(folder: Path, edit) -> None:
    edit_json(folder / "config.json", lambda config: edit(config["quantization_config"]))


def edit_both(folder: Path, edit) -> None:
    """Change the list of plain modules in both configurations of ModelOpt."""
    edit_config(folder, lambda config: edit(config["ignore"]))
    edit_json(folder / "hf_quant_config.json", lambda config: edit(config["quantization"]["exclude_modules"]))


def edit_tensors(folder: Path, edit) -> None:
    tensors = tensors_of(folder)
    edit(tensors)
    save(folder, tensors)


def read(folder: Path):
    return read_quantized(folder, list_tensors(folder))


def refused(folder: Path, *words: str, error: type = CheckpointError) -> None:
    with pytest.raises(error) as caught:
        read(folder)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.path is not None
    with pytest.raises(error):
        load_model(folder)
