"""The target as a drafter's teacher: what it answers, and what its layers hold while it does.

A drafter learns to foresee the target, right or wrong. So the tokens to be learnt are the target's own greedy output,
and the features are those of a pass over exactly these tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ocria.model.checkpoint import LoadedModel
from ocria.model.image import preprocess
from ocria.model.positions import rope_positions
from ocria.model.tokens import expand_image_tokens
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request
from ocria.spec.source import drafter_position


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one image: ids int64 `[P]` with the image's placeholders repeated, its 3-D positions int64
    `[3, P]`, pixels fp32 `[patches, C * T * P * P]` and the grid."""

    ids: torch.Tensor
    positions: torch.Tensor
    pixels: torch.Tensor
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Forced:
    """A pass over P prompt rows and R rows of output. features `[B, P + R, taps * D]`; choice int64 `[B, R + 1]`: the
    likeliest token behind the prompt and behind each row of output; position int64 `[P + R]`, as drafters count."""

    features: torch.Tensor
    choice: torch.Tensor
    position: torch.Tensor


class Teacher:
    """A loaded target, asked for one image at a time as its profile says. taps: layers whose outputs are features."""

    def __init__(self, loaded: LoadedModel, taps: Sequence[int], batch: int = 32):
        self.loaded, self.taps = loaded, tuple(taps)
        self.network, self.config = loaded.network, loaded.config
        profile = loaded.profile
        self.template = loaded.tokenizer.encode(
            loaded.tokenizer.render(profile.messages(), **profile.template_kwargs)
        )
        self.stop_id = self.config.eos_token_ids[0]
        self.network.prepare()
        self._options = EngineOptions(max_batch=batch)
        self._engine: Engine | None = None

    def prompt(self, image: np.ndarray) -> Prompt:
        """uint8 `[H, W]` or `[H, W, 3]` as the target sees it."""
        pixels, grid = preprocess(image, self.loaded.image)
        token, merge = self.config.image_token_id, self.config.vision.spatial_merge_size
        ids = expand_image_tokens(self.template, token, [grid[0] * grid[1] * grid[2] // merge**2])
        positions, _ = rope_positions(ids, token, [grid], merge)
        return Prompt(torch.tensor(ids), positions, pixels, grid)

    def greedy(self, images: Sequence[np.ndarray]) -> list[list[int]]:
        """The target's greedy answers through the engine, the end token included where the answer ended by itself."""
        if self._engine is None:
            self._engine = Engine(self.loaded, self._options)
        results = self._engine.run([Request(i, self.template, [image]) for i, image in enumerate(images)])
        for result in results:
            if result.error is not None:
                raise result.error
        return [[*r.tokens, self.stop_id] if r.finish_reason == "stop" else [*r.tokens] for r in results]

    @torch.inference_mode()
    def forced(self, prompts: Sequence[Prompt], output: torch.Tensor) -> Forced:
        """Prompts of one length, and the output int64 `[B, R]` fed behind them; it may be padded, as no row sees a
        later one."""
        network, config = self.network, self.config.text
        device, first = network.device, prompts[0]
        length, batch = len(first.ids), len(prompts)
        pixels = torch.cat([prompt.pixels for prompt in prompts]).to(device, network.dtype)
        image = network.encode_image(pixels, [prompt.grid for prompt in prompts])
        ids = torch.stack([prompt.ids for prompt in prompts]).to(device)
        hidden = network.embed(torch.cat([ids, output.to(device)], dim=1))
        hidden[:, :length][ids == self.config.image_token_id] = image.to(hidden.dtype)
        after = int(first.positions.max()) + 1 + torch.arange(output.shape[1])
        positions = torch.cat([first.positions, after.expand(3, -1)], dim=1)
        cos, sin = text_rope(positions.to(device), config.rotary_dim, config.rope_theta, config.mrope_section)
        last, features = network.tapped(hidden, Window.whole(cos[None], sin[None], batch), None, self.taps)
        choice = network.logits(last[:, length - 1 :]).argmax(dim=-1)
        return Forced(features, choice, drafter_position(positions))
