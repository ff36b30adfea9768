"""Run by test_compiled in a process of its own: answers of the compiled engine and of the eager one, and what the
compile cache did, as JSON."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from small_model import CONFIG, IMAGE, byte_tokenizer, random_weights

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.runtime.compiled import cache_counts
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits, Request


def main(folder: Path, seed: int) -> None:
    config = ModelConfig.from_dict(CONFIG)
    network = Qwen35(config).eval().requires_grad_(False)
    random_weights(network, seed)
    profile = Profile(name="small", unit="line", prompt="", dialect="text", max_output_tokens=64)
    loaded = SimpleNamespace(
        network=network, tokenizer=byte_tokenizer(folder), config=config, profile=profile, image=IMAGE
    )
    generator = torch.Generator().manual_seed(seed)
    requests = [
        Request(i, torch.randint(0, 256, (1 + i,), generator=generator).tolist(), [], Limits(max_tokens=6 + 3 * i))
        for i in range(5)
    ]
    answers = {}
    for compiled in (False, True):
        # Alone, then five in three slots: one row, then all three, then two, over caches of many lengths.
        engine = Engine(loaded, EngineOptions(max_batch=3, compile=compiled))
        results = engine.run(requests[:1]) + engine.run(requests)
        answers[compiled] = [list(result.tokens) for result in results]
    hits, misses = cache_counts()
    print(json.dumps({"eager": answers[False], "compiled": answers[True], "hits": hits, "misses": misses,
                      "folder": os.environ["TORCHINDUCTOR_CACHE_DIR"]}))  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
