"""transformers' `generate` as the peer of the engine: the same weights, the same prompt, the same line images."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image


@dataclass(frozen=True, slots=True)
class Decoding:
    """A step of one token a request. batch: requests; length: rows of each that attention sees, padding included;
    seconds: to the start of the next one, or to the end; inside: of them those in the model."""

    batch: int
    length: int
    seconds: float
    inside: float


class Transformers:
    """`Qwen3_5ForConditionalGeneration` with the checkpoint's own image processor, greedy, left-padded batches.

    `decoding` are the steps of the last call of `generate`. Needs transformers 5.2 or newer (the `bench` extra).
    """

    def __init__(self, folder: Path, prompt_ids: list[int], pad_id: int, max_tokens: int, dtype, device: str):
        """`prompt_ids` hold one image token, which is repeated here to the number of the image's tokens."""
        from transformers import AutoImageProcessor, Qwen3_5ForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._model = Qwen3_5ForConditionalGeneration.from_pretrained(folder, dtype=dtype).to(device).eval()
        self._processor = AutoImageProcessor.from_pretrained(folder)
        self._prompt, self._pad, self._device = prompt_ids, pad_id, device
        self.max_tokens = max_tokens
        self.decoding: list[Decoding] = []
        self._image_token = self._model.config.image_token_id
        self._passes: list[tuple[float, float]] = []  # start and end of each, the prompt's first
        self._model.register_forward_pre_hook(self._begin)
        self._model.register_forward_hook(self._end)

    @torch.inference_mode()
    def generate(self, images: list[np.ndarray], batch: int, max_tokens: int | None = None) -> list[list[int]]:
        """Output token ids of each line image (uint8 `[H, W]`), without padding and end tokens.

        Lines are taken widest first, so that a batch holds lines alike and little is padded.
        """
        order = sorted(range(len(images)), key=lambda n: -images[n].shape[1])
        outputs: list[list[int]] = [[]] * len(images)
        self.decoding = []
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            found = self._batch([images[n] for n in chosen], max_tokens or self.max_tokens)
            for number, ids in zip(chosen, found, strict=True):
                outputs[number] = ids
        return outputs

    def _batch(self, images: list[np.ndarray], max_tokens: int) -> list[list[int]]:
        pixels = self._processor(
            images=[Image.fromarray(image).convert("RGB") for image in images], return_tensors="pt"
        )
        merged = self._processor.merge_size**2
        prompts = [self._expanded(int(grid.prod()) // merged) for grid in pixels["image_grid_thw"]]
        longest = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (longest - len(p)) + p for p in prompts], device=self._device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=self._device)
        self._passes = []
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == self._image_token).long(),
            pixel_values=pixels["pixel_values"].to(self._device, self._model.dtype),
            image_grid_thw=pixels["image_grid_thw"].to(self._device),
            do_sample=False,
            max_new_tokens=max_tokens,
            pad_token_id=self._pad,
        )
        answers = [self._until_end(row) for row in out[:, longest:].tolist()]
        # The host waits for every step's tokens to see whether all have ended, so starts are apart as steps are.
        over = (time.perf_counter(), 0.0)
        for (start, end), (following, _) in pairwise([*self._passes[1:], over]):
            longest += 1
            self.decoding.append(Decoding(len(images), longest, following - start, end - start))
        return answers

    def _begin(self, model, positional) -> None:
        self._passes.append((time.perf_counter(), 0.0))

    def _end(self, model, positional, output) -> None:
        self._passes[-1] = (self._passes[-1][0], time.perf_counter())

    def _expanded(self, image_tokens: int) -> list[int]:
        at = self._prompt.index(self._image_token)
        return [*self._prompt[:at], *[self._image_token] * image_tokens, *self._prompt[at + 1 :]]

    def _until_end(self, row: list[int]) -> list[int]:
        ends = self._model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends)
        return row[: next((n for n, token in enumerate(row) if token in ends), len(row))]
