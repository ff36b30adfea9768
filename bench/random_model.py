"""Models of published shapes with random weights and a tokenizer as large as theirs: for speed, never for text."""

from __future__ import annotations

import itertools
import json
import string
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import tokenizers
import torch
from roofline import config_4b
from torch import nn

from ocria.errors import UsageError
from ocria.model.checkpoint import KEPT_FP32
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.model.tokens import Tokenizer


def random_4b(layers: int, dtype: torch.dtype, device: str, seed: int) -> SimpleNamespace:
    """The first `layers` of the 32 layers of the 4B model, embedding and head: what an Engine needs of a checkpoint.
    Raises UsageError for another number of layers."""
    config = config_4b()
    if not 1 <= layers <= config.text.num_hidden_layers:
        raise UsageError(f"{layers} layers of the {config.text.num_hidden_layers} of the 4B model")
    kinds = config.text.layer_types[:layers]
    return random_model(replace(config, text=replace(config.text, num_hidden_layers=layers, layer_types=kinds)),
                        dtype, device, seed)  # fmt: skip


def random_model(config: ModelConfig, dtype: torch.dtype, device: str, seed: int) -> SimpleNamespace:
    """A model of a configuration, its weights random."""
    with torch.device("meta"):
        network = Qwen35(config)
    random_parameters(network, dtype, device, seed)
    profile = Profile(name="random", unit="page", prompt="", dialect="markdown", max_output_tokens=4096)
    tokenizer = made_up_tokenizer(config.text.vocab_size)
    return SimpleNamespace(network=network.eval(), tokenizer=tokenizer, config=config, profile=profile, image=None)


def random_parameters(network: nn.Module, dtype: torch.dtype, device: str, seed: int) -> nn.Module:
    """The network, which is on the meta device, with random parameters on another one. Matrices keep the size of what
    they multiply; vectors (norms, biases, rates) stay small."""
    generator = torch.Generator(device).manual_seed(seed)
    for name, parameter in list(network.named_parameters()):
        kept = torch.float32 if KEPT_FP32.fullmatch(name) else dtype
        scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.1
        values = torch.randn(parameter.shape, generator=generator, device=device).mul_(scale).to(kept)
        module, _, leaf = name.rpartition(".")
        setattr(network.get_submodule(module), leaf, nn.Parameter(values, requires_grad=False))
    return network


def made_up_tokenizer(size: int) -> Tokenizer:
    """`size` tokens, each of four letters, without merges; a text of such words is the tokens it was made of."""
    words = map("".join, itertools.product(string.ascii_letters, repeat=4))
    vocabulary = {word: number for number, word in enumerate(itertools.islice(words, size))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    word = tokenizers.Regex("[A-Za-z]{4}")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(word, behavior="isolated")
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(str(Path(folder) / "tokenizer.json"))
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps({}), encoding="utf-8")
        return Tokenizer(folder)
