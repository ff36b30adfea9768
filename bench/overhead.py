"""What does the host do around each step of the engine, how long does it take, and what does it launch?

    python bench/overhead.py                                            ocria-nano on the CPU, batch 1, 8 and 32
    python bench/overhead.py --device cuda --model 4b-random-layers 8   eight layers of 4B shapes, random weights

Every way to run steps (eager, or one CUDA graph a step; with and without overlap) first makes the same tokens, or no
time is printed. Then all of them, prefilled, take turns. The last line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

PROMPT = 32
GATE_TOKENS = 24
SETTLE = 8
"""Steps before the clock starts."""
PROFILED = 10
RING = 16
"""Of the step whose operations are counted on the CPU: the one that CUDA has by default."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", nargs="+", default=["nano"], metavar="NAME", help="nano (default), or 4b-random-layers N"
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="default: float32 on the CPU, else bfloat16")
    parser.add_argument("--compile", action="store_true", help="all of them through torch.compile")
    parser.add_argument("--ring", type=int, metavar="N", help="rows of the replay ring; default: the engine's own")
    parser.add_argument("--steps", type=int, default=60, help="steps of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def load(model: list[str], dtype: torch.dtype, device: str, seed: int) -> Any:
    """The model, as an Engine needs it, but without anything that ends an answer before its length."""
    from ocria.errors import UsageError

    match model:
        case ["nano"]:
            from ocria.document.reader import NANO
            from ocria.model.checkpoint import load_model

            loaded = load_model(NANO, dtype=dtype, device=device)
        case ["4b-random-layers", layers] if layers.isdecimal():
            from random_model import random_4b

            loaded = random_4b(int(layers), dtype, device, seed)
        case _:
            raise UsageError(f"no model {' '.join(model)!r}", cure="Use nano, or 4b-random-layers N.")
    return endless(loaded)


def endless(loaded: Any) -> SimpleNamespace:
    """The same model, of which no token and no text ends an answer."""
    tokenizer = copy.copy(loaded.tokenizer)
    tokenizer.eos_ids = ()
    return SimpleNamespace(
        network=loaded.network, tokenizer=tokenizer, config=replace(loaded.config, eos_token_ids=()),
        profile=loaded.profile.override(stop=()), image=loaded.image,
    )  # fmt: skip


def variants(device: str) -> dict[str, dict[str, bool]]:
    """Ways to run steps, as options of the engine."""
    found = {}
    for graph in (False, True) if device == "cuda" else (False,):
        for overlap in (False, True):
            found[("graph" if graph else "eager") + (" overlap" if overlap else "")] = {
                "graph": graph, "overlap": overlap
            }  # fmt: skip
    return found


def make_engine(loaded: Any, batch: int, arguments: argparse.Namespace, **levers: bool) -> Any:
    """An engine whose guard against loops never finds one: it asks for more repetition than a run has tokens."""
    from ocria.runtime.engine import Engine
    from ocria.runtime.options import EngineOptions

    options = {"ring": arguments.ring, "compile": arguments.compile} | levers
    engine = Engine(loaded, EngineOptions(max_batch=batch, admit_group=1, **options))
    engine.budget.loop_tokens = lambda image_tokens: 4 * loaded.config.text.max_position_embeddings
    return engine


def requests(loaded: Any, batch: int, tokens: int, seed: int) -> list:
    """Requests of `tokens` output tokens each after a random prompt."""
    from ocria.runtime.request import Limits, Request

    generator = torch.Generator().manual_seed(seed)
    # What is special in a vocabulary stands at its end; an image placeholder would ask for an image.
    ids = torch.randint(0, min(256, loaded.config.text.vocab_size), (batch, PROMPT), generator=generator)
    return [Request(number, prompt, limits=Limits(max_tokens=tokens)) for number, prompt in enumerate(ids.tolist())]


def same_tokens(engines: dict[str, Any], loaded: Any, batch: int, seed: int) -> list[str]:
    """Names of the engines whose tokens are not those of the first; this run is the warm-up too."""
    made = {
        name: [result.tokens for result in engine.run(requests(loaded, batch, GATE_TOKENS, seed))]
        for name, engine in engines.items()
    }
    first = next(iter(made.values()))
    assert all(len(tokens) == GATE_TOKENS for tokens in first), "an answer ended early"
    return [name for name, tokens in made.items() if tokens != first]


def reserve(engine: Any, request: Any) -> None:
    """Let the engine allocate, once and for all, the state that a request as large as this one needs."""
    engine.submit(request)
    engine.step()
    engine.cancel(request.id)
    while not engine.idle:
        engine.step()


def prefill(engine: Any, asked: list) -> None:
    """Submit requests and run the engine until all of them decode and the loop has settled."""
    from ocria.events import PrefillDone

    for request in asked:
        engine.submit(request)
    entered = 0
    while entered < len(asked):
        entered += sum(isinstance(event, PrefillDone) for e in engine.step() for event in e.events)
    for _ in range(SETTLE):
        engine.step()


def take_turns(clocks: dict[str, Any], rounds: int, steps: int) -> None:
    """`steps` clocked steps of each, in alternating order."""
    for turn in range(rounds):
        for clock in list(clocks.values()) if turn % 2 == 0 else list(clocks.values())[::-1]:
            for _ in range(steps):
                clock.step()


def count_operations(loaded: Any, batch: int, arguments: argparse.Namespace) -> dict[str, dict]:
    """Operations of one eager step by the form of the ops that runs: kernels, and on the CPU the torch forms. There
    the kernels run in Triton's interpreter, unless it is missing or would take minutes."""
    from host_parts import dispatched

    from ocria.ops.register import INTERPRETED, force_kernels

    cpu = arguments.device == "cpu"
    forms = ["torch", "kernels"] if cpu else ["kernels"]
    if cpu and (not INTERPRETED or loaded.config.text.hidden_size > 512):
        forms.remove("kernels")
    found = {}
    for form in forms:
        forced = cpu and form == "kernels"
        ring = arguments.ring or RING if forced else arguments.ring
        plain = argparse.Namespace(**{**vars(arguments), "compile": False, "ring": ring})
        engine = make_engine(loaded, batch, plain, graph=False, overlap=False)
        prefill(engine, requests(loaded, batch, 4 * SETTLE, arguments.seed))
        with force_kernels() if forced else nullcontext():
            found[form] = dispatched(engine)
    return found


def measure(loaded: Any, batch: int, arguments: argparse.Namespace) -> dict:
    """Check, then clock, the variants at one batch size: a row of the table for each."""
    from host_parts import HostClock, device_seconds, launches, summary

    engines = {name: make_engine(loaded, batch, arguments, **v) for name, v in variants(arguments.device).items()}
    cuda = arguments.device == "cuda"
    tokens = SETTLE + arguments.rounds * arguments.steps + (2 * PROFILED if cuda else 0) + 8  # and those on their way
    asked = requests(loaded, batch, max(tokens, GATE_TOKENS), arguments.seed)
    for engine in engines.values():
        reserve(engine, asked[0])
    different = same_tokens(engines, loaded, batch, arguments.seed)
    row = {"batch": batch, "same_tokens": not different, "different": different}
    if different:
        return row
    for engine in engines.values():
        prefill(engine, asked)
    row["launches"] = {name: launches(engine, PROFILED) for name, engine in engines.items()} if cuda else None
    row["device"] = {name: device_seconds(engine, PROFILED) for name, engine in engines.items()} if cuda else None
    clocks = {name: HostClock(engine) for name, engine in engines.items()}
    take_turns(clocks, arguments.rounds, arguments.steps)
    assert all(not engine.idle and engine.tick().running == batch for engine in engines.values())
    row["seconds"] = {name: summary(clock.steps, arguments.device) for name, clock in clocks.items()}
    return row


def print_rows(row: dict) -> None:
    from host_parts import PARTS

    if not row["same_tokens"]:
        print(f"{row['batch']:>5} WRONG: {', '.join(row['different'])}: not the tokens of eager steps, no times")
        return
    for name, seconds in row["seconds"].items():
        parts = " ".join(f"{seconds[part] * 1e6:>8.1f}" for part in (*PARTS, "host", "total"))
        line = f"{row['batch']:>5} {name:<14} {parts}"
        if row["launches"]:
            counts = " ".join(f"{count:>7.1f}" for count in row["launches"][name].values())
            line += f" {row['device'][name] * 1e6:>8.1f} {counts}"
        print(line)


def print_operations(operations: dict[str, dict]) -> None:
    for form, counts in operations.items():
        ours = ", ".join(f"{name.removeprefix('ocria.')} {count}" for name, count in counts["ocria"].items())
        around = f"and {counts['around']} around it" + (f"; ours among them: {ours}" if ours else "")
        print(f"operations that reach the dispatcher, {form}: {counts['step']} in the step, {around}")
    if "kernels" not in operations:
        print("kernels: not counted; they cannot run here, or would take minutes in the interpreter")


def method(arguments: argparse.Namespace) -> list[str]:
    from host_parts import PARTS

    name = torch.cuda.get_device_name() if arguments.device == "cuda" else platform.processor() or platform.machine()
    return [
        f"{' '.join(arguments.model)}, {arguments.dtype}, {name}, {arguments.threads} of {os.cpu_count()} cores, torch "
        f"{torch.__version__}, Python {platform.python_version()}, compile {'on' if arguments.compile else 'off'}, "
        f"ring {'by default' if arguments.ring is None else arguments.ring}, seed {arguments.seed}.",
        f"Random prompts of {PROMPT} tokens, greedy, nothing ends an answer; the guard against loops is asked after "
        f"every token and never finds one. {arguments.rounds} turns of {arguments.steps} steps each in alternating "
        "order; medians over the steps, in µs (those of parts need not add up).",
        *(f"  {part}: {what}" for part, what in PARTS.items()),
        "  host: all but wait"
        + (". device: from the first to the last kernel of a step, by events" if arguments.device == "cuda"
           else " and step"),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    cuda = arguments.device == "cuda"
    if cuda and not torch.cuda.is_available():
        print("overhead: torch sees no CUDA device", file=sys.stderr)
        return 2
    if not cuda:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before ocria: how kernels run is decided at their definition
    from ocria.errors import OcriaError

    arguments.dtype = arguments.dtype or ("bfloat16" if cuda else "float32")
    torch.set_num_threads(arguments.threads)
    try:
        loaded = load(arguments.model, getattr(torch, arguments.dtype), arguments.device, arguments.seed)
        return report(loaded, arguments)
    except OcriaError as error:
        print(f"overhead: {error}", file=sys.stderr)
        return error.exit_code


def report(loaded: Any, arguments: argparse.Namespace) -> int:
    """Measure all batch sizes and print. Returns the exit code."""
    from host_parts import PARTS

    how = method(arguments)
    print("\n".join(how) + "\n")
    heads: Iterable[str] = (*PARTS, "host", "total")
    more = f" {'device':>8} kernels  graphs  copies" if arguments.device == "cuda" else ""
    print(f"{'batch':>5} {'steps':<14} " + " ".join(f"{head:>8}" for head in heads) + more)
    rows = []
    for batch in arguments.batch:
        rows.append(measure(loaded, batch, arguments))
        print_rows(rows[-1])
    operations = count_operations(loaded, arguments.batch[0] if arguments.device == "cuda" else 1, arguments)
    print()
    print_operations(operations)
    same = all(row["same_tokens"] for row in rows)
    document = {"bench": "overhead", "method": how, "model": arguments.model, "device": arguments.device}
    print(json.dumps({**document, "same_tokens": same, "operations": operations, "batches": rows}))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
