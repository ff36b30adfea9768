"""transformers' `generate` as the peer of the engine: the same weights, the same prompt, the same line images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image


class Transformers:
    """`Qwen3_5ForConditionalGeneration` with the checkpoint's own image processor, greedy, left-padded batches.

    Needs transformers 5.2 or newer (the `bench` extra).
    """

    def __init__(self, folder: Path, prompt_ids: list[int], pad_id: int, max_tokens: int, dtype, device: str):
        """`prompt_ids` hold one image token, which is repeated here to the number of the image's tokens."""
        from transformers import AutoImageProcessor, Qwen3_5ForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._model = Qwen3_5ForConditionalGeneration.from_pretrained(folder, dtype=dtype).to(device).eval()
        self._processor = AutoImageProcessor.from_pretrained(folder)
        self._prompt, self._pad, self._max_tokens, self._device = prompt_ids, pad_id, max_tokens, device
        self._image_token = self._model.config.image_token_id

    @torch.inference_mode()
    def generate(self, images: list[np.ndarray], batch: int) -> list[list[int]]:
        """Output token ids of each line image (uint8 `[H, W]`), without padding and end tokens.

        Lines are taken widest first, so that a batch holds lines alike and little is padded.
        """
        order = sorted(range(len(images)), key=lambda n: -images[n].shape[1])
        outputs: list[list[int]] = [[]] * len(images)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            for number, ids in zip(chosen, self._batch([images[n] for n in chosen]), strict=True):
                outputs[number] = ids
        return outputs

    def _batch(self, images: list[np.ndarray]) -> list[list[int]]:
        pixels = self._processor(
            images=[Image.fromarray(image).convert("RGB") for image in images], return_tensors="pt"
        )
        merged = self._processor.merge_size**2
        prompts = [self._expanded(int(grid.prod()) // merged) for grid in pixels["image_grid_thw"]]
        longest = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (longest - len(p)) + p for p in prompts], device=self._device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=self._device)
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == self._image_token).long(),
            pixel_values=pixels["pixel_values"].to(self._device, self._model.dtype),
            image_grid_thw=pixels["image_grid_thw"].to(self._device),
            do_sample=False,
            max_new_tokens=self._max_tokens,
            pad_token_id=self._pad,
        )
        return [self._until_end(row) for row in out[:, longest:].tolist()]

    def _expanded(self, image_tokens: int) -> list[int]:
        at = self._prompt.index(self._image_token)
        return [*self._prompt[:at], *[self._image_token] * image_tokens, *self._prompt[at + 1 :]]

    def _until_end(self, row: list[int]) -> list[int]:
        ends = self._model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends)
        return row[: next((n for n, token in enumerate(row) if token in ends), len(row))]
