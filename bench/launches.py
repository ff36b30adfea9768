"""How many kernels does a step launch? Counted from a step that is really run, of a model with the layers of the 4B one
and few channels: neither changes the number.

    python bench/launches.py          count, and write bench/launches.json, which bench/roofline.py reads

On the CPU the operations that reach torch's dispatcher are written down. Those that only look at memory in another way
launch nothing; any other is taken for one kernel, ours for as many as they have. `torch` are the torch forms, what a
GPU would launch without fused kernels; `kernels` are ours in Triton's interpreter, what it does launch. `transformers`
is a step of its `generate` without fla, which few have installed. The last line of standard output is a JSON document.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FILE = Path(__file__).with_suffix(".json")
OURS = {"attend": 3, "greedy": 2, "sample": 3, "verify": 6, "chunk": 3, "fp8_matmul": 2, "nvfp4_matmul": 2}
"""Kernels of an op of ours where it is more than one (docs/kernels.md)."""
_NOTHING = ("empty", "detach", "alias", "_local_scalar_dense", "lift_fresh", "_unsafe_view", "is_same_size")


class Launching(TorchDispatchMode):
    """Names of the operations that launch something."""

    def __init__(self):
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().removesuffix(".default")
        bare = name.partition("::")[2].partition(".")[0]
        if not (function.is_view or any(bare.startswith(nothing) for nothing in _NOTHING)):
            self.names[name] += 1
        return function(*args, **(kwargs or {}))

    @property
    def launches(self) -> int:
        """Kernels of all of them."""
        return sum(times * _kernels(name) for name, times in self.names.items())


def _kernels(name: str) -> int:
    space, _, bare = name.partition("::")
    return OURS.get(bare.partition(".")[0], 1) if space == "ocria" else 1


def of_step(engine: Any) -> int:
    """Kernels of one step of an engine whose requests all decode."""
    runner = engine.worker.runner
    run, inside = runner.run, Launching()

    def counted(*arguments):
        with inside:
            return run(*arguments)

    runner.run = counted
    try:
        engine.step()
    finally:
        runner.run = run
    return inside.launches


def shape(groups: int = 8) -> Any:
    """Few channels, but the layers of the 4B model: `groups` times three Gated DeltaNet layers and one of attention.
    The drafters have as many layers as theirs."""
    from ladder.shapes import LARGE, TINY

    def layered(narrow: dict[str, Any], wide: dict[str, Any], *names: str) -> dict[str, Any]:
        return narrow | {name: wide[name] for name in names}

    layers = 4 * groups
    text = TINY.data["text_config"] | {"num_hidden_layers": layers, "full_attention_interval": 4}
    drafters = {}
    for name, wide in LARGE.drafters.items():
        data = layered(TINY.drafters[name], wide, "num_hidden_layers", "layer_types") | {"num_target_layers": layers}
        taps = [tap for tap in wide["dflash_config"]["target_layer_ids"] if tap < layers]
        data["dflash_config"] = data["dflash_config"] | {"target_layer_ids": taps}
        drafters[name] = data
    return replace(TINY, data=TINY.data | {"text_config": text}, drafters=drafters)


def count_ours(form: str, draft: str, groups: int = 8) -> int:
    """Kernels of one step: `form` of the ops, and who drafts, as of `Large.chain`."""
    from ladder.large import load

    from ocria.ops.register import force_kernels
    from ocria.runtime.options import EngineOptions

    large = load(shape(groups), torch.float32, "cpu", 0)
    chain = large.chain(draft)
    options = EngineOptions(max_batch=1, draft_rows=chain and chain.rows, ring=64 if chain else 16)
    engine = large.engine(options, chain)
    for request in large.requests(1, 0):
        engine.submit(request)
    while not engine.worker.steps:
        engine.step()
    with force_kernels() if form == "kernels" else nullcontext():
        return of_step(engine)


@torch.inference_mode()
def count_transformers(groups: int = 8) -> int:
    """Kernels of one step of transformers' model, a row of one request over a cache."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    torch.manual_seed(0)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**shape(groups).data)).eval()
    ids = torch.arange(8)[None]
    made = model(input_ids=ids, use_cache=True)
    counted = Launching()
    with counted:
        model(input_ids=ids[:, :1], past_key_values=made.past_key_values, use_cache=True).logits[:, -1].argmax(-1)
    return counted.launches


def main() -> int:
    os.environ["TRITON_INTERPRET"] = "1"  # before ocria: how kernels run is decided at their definition
    torch.set_num_threads(1)
    found: dict[str, Any] = {"transformers": count_transformers()}
    for form in ("torch", "kernels"):
        found[form] = {draft: count_ours(form, draft) for draft in ("none", "lookup", "dflash", "dflash2")}
    FILE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
