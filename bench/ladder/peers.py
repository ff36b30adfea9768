"""What people would use instead, on the same machine: which of it is there, and transformers with the same weights.

    python -m bench.ladder.peers        what is installed; bench/ops.py times the kernels beside ours

The weights of a random model are not copied: transformers' model holds the very tensors of ours.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from generate import Decoding

from ocria.model.image import preprocess
from ocria.model.tokens import expand_image_tokens
from ocria.runtime.request import Request

PACKAGES = {
    "transformers": ("transformers", "generate, a step of which is one pass of its model"),
    "fla": ("flash-linear-attention", "fused_recurrent_gated_delta_rule; transformers uses it too where it is there"),
    "causal_conv1d": ("causal-conv1d", "used by transformers where it is there"),
    "flash_attn": ("flash-attn", "used by transformers where it is asked for"),
}
"""By the name of the module: the package, and what of it is compared or changes the comparison."""


def available() -> dict[str, str]:
    """By package, its version and what it is for, or that it is absent."""
    found = {}
    for module, (package, purpose) in PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            found[package] = f"absent: {purpose}"
        else:
            found[package] = f"{importlib.metadata.version(package)}: {purpose}"
    return found


class RandomTransformers:
    """transformers' model on the weights of a `Large`, greedy, left-padded batches; no token ends an answer.

    Has what `ladder.sides.Peer` wants: answers have the length that their request allows, found by its image, and
    `max_tokens` at most; a batch runs as long as the longest of them. decoding: the steps of the last call.
    """

    def __init__(self, large: Any, requests: list[Request], max_tokens: int):
        from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()
        network = large.loaded.network
        self._large, self._device, self.max_tokens = large, network.device, max_tokens
        self._requests = {id(request.images[0]): request for request in requests}
        self.decoding: list[Decoding] = []
        self._passes: list[tuple[float, float]] = []  # start and end of each, the prompt's first
        default = torch.get_default_dtype()
        torch.set_default_dtype(network.dtype)
        try:
            with self._device:
                self._model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**large.shape.data)).eval()
        finally:
            torch.set_default_dtype(default)
        # Where ours keeps a tensor in fp32, this one has it in the dtype of the rest, as `from_pretrained` does.
        weights = {name: tensor.to(network.dtype) for name, tensor in network.state_dict().items()}
        self._model.load_state_dict(weights, strict=True, assign=True)
        self._model.generation_config.eos_token_id = None
        self._model.register_forward_pre_hook(self._begin)
        self._model.register_forward_hook(self._end)

    @torch.inference_mode()
    def generate(self, images: list[np.ndarray], batch: int, max_tokens: int | None = None) -> list[list[int]]:
        """Output token ids of each image, which has to be that of a request."""
        self.decoding, outputs = [], []
        for start in range(0, len(images), batch):
            chosen = [self._requests[id(image)] for image in images[start : start + batch]]
            outputs += self._batch(chosen, max_tokens or self.max_tokens)
        return outputs

    def _batch(self, requests: list[Request], most: int) -> list[list[int]]:
        loaded, image = self._large.loaded, self._large.shape.image_token
        read = [preprocess(request.images[0], loaded.image) for request in requests]
        merged = loaded.image.merge_size**2
        prompts = [
            expand_image_tokens(request.prompt, image, [pixels.shape[0] // merged])
            for request, (pixels, _) in zip(requests, read, strict=True)
        ]
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=self._device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=self._device)
        limits = [min(request.limits.max_tokens, most) for request in requests]
        self._passes = []
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            mm_token_type_ids=(ids == image).long(),
            pixel_values=torch.cat([pixels for pixels, _ in read]).to(self._device, self._model.dtype),
            image_grid_thw=torch.tensor([grid for _, grid in read], device=self._device),
            do_sample=False,
            max_new_tokens=max(limits),
            pad_token_id=0,
        )
        rows = out[:, longest:].tolist()
        over = (time.perf_counter(), 0.0)
        for (start, end), (following, _) in pairwise([*self._passes[1:], over]):
            longest += 1
            self.decoding.append(Decoding(len(requests), longest, following - start, end - start))
        return [row[:limit] for row, limit in zip(rows, limits, strict=True)]

    def _begin(self, model, positional) -> None:
        self._passes.append((time.perf_counter(), 0.0))

    def _end(self, model, positional, output) -> None:
        self._passes[-1] = (self._passes[-1][0], time.perf_counter())


def main() -> int:
    found = available()
    backends = torch.backends.cuda
    for name, text in found.items():
        print(f"{name}: {text}")
    enabled = {
        "flash": backends.flash_sdp_enabled(), "memory-efficient": backends.mem_efficient_sdp_enabled(),
        "cuDNN": backends.cudnn_sdp_enabled(), "math": backends.math_sdp_enabled(),
    }  # fmt: skip
    on = ", ".join(name for name, there in enabled.items() if there)
    print(f"torch {torch.__version__}: scaled_dot_product_attention by {on}")
    print(json.dumps({"bench": "peers", "packages": found, "torch": torch.__version__, "sdpa": enabled}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
