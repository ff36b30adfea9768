"""A model of published shapes with random weights, made where it runs: for speed, never for text.

Nothing is read from files: 4.6 billion numbers are drawn on the device in a second or two. Random weights would choose
among tokens that are nearly equal, and then every order of sums gives another answer. So the head is not quite random:
the row of a token is the embedding of the token before it in one long cycle through the vocabulary, and the branches of
the layers are as small as trained ones are at the beginning. What is chosen is the next token of the cycle, by a wide
margin, whatever the rounding; every layer is computed in full. Equal tokens show here that rows, cursors, batches and
drafts are kept in order, not that the numbers of a layer are right: `bench/ops.py` and the tests do that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from random_model import random_model, random_parameters
from torch import nn

from ocria.model.config import ModelConfig
from ocria.model.image import ImageConfig
from ocria.ops.linear import Linear
from ocria.quant.recipe import Format, load_recipe
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.step_bytes import linear_shapes
from ocria.quant.tensors import Weight
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits, Request
from ocria.spec.chain import Chain
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash import DFlash
from ocria.spec.load import build
from ocria.spec.lookup import NGramLookup, TextLookup
from ocria.spec.network import NetworkDrafts

from .forced import Forced, schedule
from .shapes import Shape

PROMPT = 24
"""Tokens of text behind the image."""
ACCEPT = {"dflash": 9.0, "dflash2": 12.0}
"""Accept lengths that the original publishes on its own documents with its own drafters."""
_BRANCHES = ("o_proj.weight", "out_proj.weight", "down_proj.weight")
WRONG_EVERY = 20
"""Of what a request brings for look-up, one token in so many is wrong."""


@dataclass(frozen=True, slots=True)
class Large:
    """loaded: what an Engine needs of a checkpoint. successor: int64 `[V]`, the token that follows each. drafters: by
    the names of the shape, quantised as the model is by `recipe`, None for bf16 or fp32."""

    shape: Shape
    loaded: SimpleNamespace
    successor: torch.Tensor
    drafters: dict[str, DFlash]
    recipe: str | None

    def chain(self, draft: str, rows: int = 16, accept: dict[str, float] | None = None) -> Chain | None:
        """draft: `none`, or of `lookup`, `dflash` and `dflash2` what drafts, joined by commas. Networks are forced to
        their accept length in `accept` (default: `ACCEPT`); look-up is real, in texts with errors (`requests`)."""
        if draft == "none":
            return None
        sources: list[Any] = []
        for name in draft.split(","):
            if name == "lookup":
                sources += [TextLookup(), NGramLookup()]
            else:
                inner = NetworkDrafts(self.drafters[name], self.loaded.network, self._inputs)
                sources.append(Forced(inner, self.successor, schedule({**ACCEPT, **(accept or {})}[name], rows)))
        return Chain(sources, rows)

    def engine(self, options: EngineOptions, drafter: Chain | None = None) -> Engine:
        """An engine of this model."""
        return Engine(self.loaded, options, drafter=drafter)

    def answer(self, last: int, count: int) -> list[int]:
        """What the model writes behind a prompt that ends with this token."""
        successor, tokens = self.successor.tolist(), []
        for _ in range(count):
            last = successor[last]
            tokens.append(last)
        return tokens

    def requests(
        self, count: int, seed: int, longest: int | None = None, answers: tuple[int, ...] | None = None
    ) -> list[Request]:
        """Pages of the sizes of the shape, in turn, each with an answer of a fixed length, those of the shape or
        `answers` in turn, at most `longest`; the guess is the answer with every `WRONG_EVERY`-th token wrong. Equal
        seeds give equal requests."""
        random = np.random.default_rng(seed)
        image, answers = self.shape.image_token, answers or self.shape.answers
        found = []
        for number in range(count):
            height, width = self.shape.pages[number % len(self.shape.pages)]
            tokens = min(answers[number % len(answers)], longest or 1 << 30)
            page = _page(height, width, seed)[:]  # a view of its own: pages of one size look alike
            prompt = [image + 2, image, image + 3, *random.integers(0, self.shape.text_tokens, PROMPT).tolist()]
            answer = self.answer(prompt[-1], tokens)
            guess = [(t + 1) % self.shape.text_tokens if i % WRONG_EVERY == WRONG_EVERY - 1 else t
                     for i, t in enumerate(answer)]  # fmt: skip
            text = self.loaded.tokenizer.decode(guess)
            found.append(Request(number, prompt, [page], Limits(max_tokens=tokens), guess=text))
        return found

    @property
    def _inputs(self) -> bool:
        """Whether inputs of quantised weights are quantised: on CUDA, as the engine has it by default."""
        return self.loaded.network.device.type == "cuda"


def load(shape: Shape, dtype: torch.dtype, device: str, seed: int, recipe: str | None = None) -> Large:
    """The model and its drafters on the device. The same seed gives the same weights, quantised by the recipe or not;
    rounding is plain: no pages are there to calibrate with. No token ends an answer."""
    config = ModelConfig.from_dict(shape.data, where=shape.name)
    loaded = random_model(config, dtype, device, seed)
    side = config.vision.patch_size * config.vision.spatial_merge_size
    loaded.image = ImageConfig(
        patch_size=config.vision.patch_size, min_pixels=side * side,
        max_pixels=max(height * width for height, width in shape.pages),
        image_mean=(0.5,) * 3, image_std=(0.5,) * 3,
    )  # fmt: skip
    network = loaded.network
    successor = _cycle(config.text.vocab_size, shape.text_tokens, seed).to(device)
    with torch.no_grad():
        embedding = network.model.language_model.embed_tokens.weight
        embedding.mul_(config.text.hidden_size**0.5)  # rows of numbers around 1
        network.lm_head.weight[successor] = embedding * config.text.hidden_size**-0.5
        for name, weight in network.named_parameters():
            if name.startswith("model.language_model") and name.endswith(_BRANCHES):
                weight.mul_((2 * config.text.num_hidden_layers) ** -0.5)
    drafters = {name: _drafter(data, dtype, device, seed) for name, data in shape.drafters.items()}
    if recipe is not None:
        chosen = load_recipe(recipe)
        _quantise(network, chosen.plan(linear_shapes(network)))
        for drafter in drafters.values():
            # A layer gets the format of the like layer of the model; what joins features stays as it is.
            names = [name for name in _linears(drafter) if ".self_attn." in name or ".mlp." in name]
            formats = {name: chosen.format_of(f"model.language_model.{name}") for name in names}
            _quantise(drafter, {name: format for name, format in formats.items() if format.kind != "bf16"})
    return Large(shape, loaded, successor, drafters, recipe)


@cache
def _page(height: int, width: int, seed: int) -> np.ndarray:
    """uint8 `[height, width, 3]`: dark dots inside a white margin."""
    page = np.full((height, width, 3), 255, np.uint8)
    inside = np.random.default_rng(seed).random((height - 16, width - 16, 1))
    page[8:-8, 8:-8] = np.where(inside < 0.1, 0, 255)
    return page


def _cycle(vocabulary: int, text: int, seed: int) -> torch.Tensor:
    """One cycle through all tokens of text, in random order; behind any other token comes itself."""
    order = torch.randperm(text, generator=torch.Generator().manual_seed(seed))
    successor = torch.arange(vocabulary)
    successor[order] = order.roll(-1)
    return successor


def _drafter(data: dict[str, Any], dtype: torch.dtype, device: str, seed: int) -> DFlash:
    with torch.device("meta"):
        network = build(DrafterConfig.from_dict(data))
    return random_parameters(network, dtype, device, seed).eval()


def _linears(network: nn.Module) -> dict[str, Linear]:
    return {name: module for name, module in network.named_modules() if isinstance(module, Linear)}


def _quantise(network: nn.Module, formats: dict[str, Format]) -> None:
    """Have these layers hold quantised weights, one after the other: twice the memory of one."""
    layers = _linears(network)
    for name, format in formats.items():
        layer = layers[name]
        layer.hold(_quantised(layer.weight.detach(), format))


def _quantised(weight: torch.Tensor, format: Format) -> Weight:
    if format.kind == "nvfp4":
        return quantize_nvfp4(weight)
    return quantize_fp8(weight, format.granularity)
