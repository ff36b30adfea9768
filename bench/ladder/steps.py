"""How long is a step on each rung, at 4B shapes? Decoding alone, all slots busy: what bench/roofline.py projects.

    python -m bench.ladder.steps --device cuda                          4B, batch 1, 8, 12 and 32
    python -m bench.ladder.steps --model tiny-random --batch 1 3        the same code, anywhere

Prompts with images are computed first, outside the clock. Tokens have to be those that the model is built to write, or
there is no speed. How many drafts hold is FORCED (`bench/ladder/forced.py`), but for look-up. The last line of standard
output is one JSON document; what was measured before a fault or a time limit has been printed by then.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from host_parts import device_seconds

from ocria.errors import OcriaError
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits
from ocria.runtime.sequence import DECODE

from .forced import Forced
from .large import ACCEPT, Large, load
from .limits import StepCosts
from .peers import RandomTransformers
from .rungs import MIX
from .shapes import SHAPES
from .sides import Seen, synchronise

SETTLE = 6
"""Steps before the clock starts: graphs are captured, and kernels compiled, by then."""
PEER_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run steps. draft: as of `Large.chain`; graph: of CUDA alone, with overlap; options: others."""

    name: str
    draft: str = "none"
    mixed: bool = False
    graph: bool = True
    options: dict[str, Any] = field(default_factory=dict)


WAYS = (
    Way("plain, no graph", graph=False),
    Way("plain"),
    Way("DFlash, no graph", "dflash", graph=False),
    Way("DFlash", "dflash"),
    Way("DFlash2", "dflash2"),
    Way("look-up", "lookup"),
    Way("mix", mixed=True),
    Way("mix, DFlash", "dflash", mixed=True),
    Way("mix, DFlash2", "dflash2", mixed=True),
    Way("mix, DFlash2, FP8 cache", "dflash2", mixed=True, options={"kv_cache": "fp8"}),
    Way("mix, look-up", "lookup", mixed=True),
)
"""From the plainest to the one that has everything; those of the mix come last, so that one model at a time is made."""
BY_NAME = {way.name: way for way in WAYS}
PEER = "transformers"


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ladder.steps", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", choices=list(SHAPES), default="4b-random")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 12, 32])
    parser.add_argument("--steps", type=int, default=20, help="of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--accept", type=float, nargs=2, default=list(ACCEPT.values()), metavar=("DFLASH", "DFLASH2"))
    parser.add_argument("--way", nargs="+", choices=[*BY_NAME, PEER], metavar="W", default=[*BY_NAME, PEER],
                        help=f"of {'; '.join([*BY_NAME, PEER])}")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def measure(large: Large, way: Way, batch: int, arguments: argparse.Namespace) -> dict:
    """A row of the table: seconds of a step and tokens a second, or what is wrong with the tokens."""
    rows = 1 if way.draft == "none" else 16
    chain = large.chain(way.draft, rows, dict(zip(ACCEPT, arguments.accept, strict=True)))
    cuda = arguments.device == "cuda"
    graph = cuda and way.graph
    drafted = rows if chain else None
    options = EngineOptions(
        max_batch=batch, admit_group=1, draft_rows=drafted, graph=graph, overlap=graph, **way.options
    )
    engine = large.engine(options, chain)
    forced = [source.accept_length for source in (chain.sources if chain else ()) if isinstance(source, Forced)]
    most = (SETTLE + arguments.steps * (arguments.turns + 1) + 8) * rows  # nobody ends before the clock does
    requests = large.requests(batch, arguments.seed, answers=(most,))
    for request in requests:
        engine.submit(request)
    while not (engine.worker.steps and all(s.phase == DECODE for s in engine._live.values())):
        engine.step()
    for _ in range(SETTLE):
        engine.step()
    turns = [_turn(engine, arguments) for _ in range(arguments.turns)]
    on_device = device_seconds(engine, arguments.steps) if cuda else None
    sequences = list(engine._live.values())
    expected = [large.answer(s.request.prompt[-1], len(s.tokens)) for s in sequences]
    wrong = sum(s.tokens != right for s, right in zip(sequences, expected, strict=True))
    row = {"way": way.name, "batch": batch, "rows": rows, "forced": forced[0] if forced else None, "wrong": wrong}
    if wrong or len(sequences) < batch:
        return row | {"wrong": wrong or "an answer ended"}
    seconds = [spent / arguments.steps for spent, _ in turns]
    tokens = sum(emitted for _, emitted in turns) / (arguments.turns * arguments.steps)
    seen = Seen(batch, rows, bool(forced), sum(s.kv_len(rows, rows) for s in sequences))
    moved, operations = StepCosts(SimpleNamespace(engine=engine)).of(seen)
    return row | {
        "seconds": median(seconds), "least": min(seconds), "most": max(seconds), "device_seconds": on_device,
        "accepted": tokens / batch, "tokens_per_s": tokens / median(seconds), "bytes": moved, "operations": operations,
        "tokens_per_s_per_request": tokens / batch / median(seconds), "levers": engine.options.levers(),
        "ran": engine.ran(),
    }  # fmt: skip


def _turn(engine: Any, arguments: argparse.Namespace) -> tuple[float, int]:
    """Seconds of some steps, and their tokens. With overlap as many are read as are launched."""
    synchronise(arguments.device)
    emitted, began = engine.metrics.emitted, time.perf_counter()
    for _ in range(arguments.steps):
        engine.step()
    synchronise(arguments.device)
    return time.perf_counter() - began, engine.metrics.emitted - emitted


def measure_peer(large: Large, batch: int, arguments: argparse.Namespace) -> dict:
    """transformers' step, one row a request."""
    requests = [replace(r, limits=Limits(max_tokens=PEER_TOKENS)) for r in large.requests(batch, arguments.seed)]
    model = RandomTransformers(large, requests, PEER_TOKENS)
    found = model.generate([request.images[0] for request in requests], batch)
    expected = [large.answer(request.prompt[-1], PEER_TOKENS) for request in requests]
    wrong = sum(a != b for a, b in zip(found, expected, strict=True))
    row = {"way": PEER, "batch": batch, "rows": 1, "forced": None, "wrong": wrong}
    if wrong:
        return row
    seconds = [step.seconds for step in model.decoding[2:]]  # those that pick kernels are left out
    return row | {
        "seconds": median(seconds), "least": min(seconds), "most": max(seconds), "device_seconds": None,
        "accepted": 1.0, "tokens_per_s": batch / median(seconds), "tokens_per_s_per_request": 1 / median(seconds),
    }  # fmt: skip


def measured(arguments: argparse.Namespace) -> Iterator[dict]:
    """Row by row. A way that fails has a row that says so, and the others go on."""
    dtype = torch.bfloat16 if arguments.device == "cuda" else torch.float32
    shape, large = SHAPES[arguments.model], None
    # The peer comes last: it is the slowest.
    for name in [name for name in (*BY_NAME, PEER) if name in arguments.way]:
        way = BY_NAME.get(name)
        recipe = MIX if way is not None and way.mixed else None
        if large is None or large.recipe != recipe:
            large = None
            _free(arguments.device)
            large = load(shape, dtype, arguments.device, arguments.seed, recipe)
        for batch in arguments.batch:
            began = time.perf_counter()
            try:
                row = measure_peer(large, batch, arguments) if way is None else measure(large, way, batch, arguments)
            except (OcriaError, RuntimeError, ImportError) as error:
                text = str(error).partition("\n")[0]
                row = {"way": name, "batch": batch, "fault": f"{type(error).__name__}: {text}"}
            yield row | {"took": time.perf_counter() - began}
            _free(arguments.device)


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def line_of(row: dict) -> str:
    """For people."""
    start = f"{row['way']:<24} {row['batch']:>5}"
    if "fault" in row:
        return f"{start} no speed: {row['fault']}"
    if "seconds" not in row:
        return f"{start} WRONG tokens ({row['wrong']}), no speed"
    spread = f"{1e3 * row['least']:.2f}–{1e3 * row['most']:.2f}"
    device = "" if row["device_seconds"] is None else f"{1e3 * row['device_seconds']:.2f}"
    accepted = f"{row['accepted']:.1f}" + (" forced" if row["forced"] else "")
    moved = f"{row['bytes'] / 1e9:.2f}" if "bytes" in row else ""
    return (
        f"{start} {row['rows']:>4} {1e3 * row['seconds']:>8.2f} {spread:>13} {device:>7} {accepted:>12} "
        f"{row['tokens_per_s_per_request']:>9.0f} {row['tokens_per_s']:>9.0f} {moved:>7}"
    )


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    cuda = arguments.device == "cuda"
    if cuda and not torch.cuda.is_available():
        print("steps: torch sees no CUDA device", file=sys.stderr)
        return 2
    name = torch.cuda.get_device_name() if cuda else "CPU"
    how = [
        f"{arguments.model} on {name}, torch {torch.__version__}, {'bf16' if cuda else 'fp32'}: "
        f"{SHAPES[arguments.model].note}.",
        f"Decoding alone, all slots busy, images in the cache; {arguments.turns} turns of {arguments.steps} steps, "
        f"medians. Accept lengths of DFlash ({arguments.accept[0]:g}) and DFlash2 ({arguments.accept[1]:g}) are "
        "FORCED: stated, not measured; look-up is real, in texts with an error every 20 tokens. "
        f"Mix: {MIX}, rounded plainly. Graphs and overlap unless it says so.",
    ]  # fmt: skip
    print("\n".join(how) + "\n")
    print(f"{'way':<24} {'batch':>5} rows  ms/step        spread  device     accepted     user/s     all/s      GB")
    rows, complete = [], False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit ends it as Ctrl-C does
    try:
        for row in measured(arguments):
            rows.append(row)
            print(line_of(row), flush=True)
        complete = True
    except KeyboardInterrupt:
        print("interrupted: what is missing was not measured")
    document = {"bench": "steps", "method": how, "device": name, "model": arguments.model, "complete": complete}
    print(json.dumps({**document, "rows": rows}))
    return 0 if complete and all("seconds" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
