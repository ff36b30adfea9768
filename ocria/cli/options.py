"""Options that several commands share: those of the engine, and facts about a checkpoint."""

from __future__ import annotations

import argparse
from typing import Any


def add_engine(parser: argparse.ArgumentParser) -> None:
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--model",
        metavar="FOLDER|NAME",
        help="folder of a checkpoint or its name on the hub; `ocria models` lists those that are known "
        "(default: ocria-nano, which ships with ocria)",
    )
    add_device(engine)
    engine.add_argument("--batch", type=int, metavar="N", help="most requests that run at the same time")
    engine.add_argument("--threads", type=int, metavar="N", help="CPU threads of the engine")
    engine.add_argument(
        "--memory", metavar="SIZE", help="what model and state may take, such as 4G (default: what is free, or half)"
    )
    engine.add_argument("--compile", action="store_true", help="run steps through torch.compile")
    engine.add_argument(
        "--no-graph", dest="graph", action="store_const", const=False, help="no CUDA graphs (default: on CUDA)"
    )
    engine.add_argument(
        "--no-overlap",
        dest="overlap",
        action="store_const",
        const=False,
        help="read the tokens of a step before the next one is launched (default: after it, on CUDA)",
    )
    engine.add_argument(
        "--ring",
        type=int,
        metavar="N",
        help="recent rows replayed over the state: a power of two up to 128, or 0 to write it in every step "
        "(default: 0 on the CPU without drafts, else what suits the steps)",
    )
    engine.add_argument(
        "--draft",
        default="auto",
        metavar="WHAT",
        help="what proposes tokens for the model to verify, for speed alone: none, lookup (text layer, repetition), "
        "vision (a first reading of a line), own (the model's drafter), a drafter's folder, several joined by "
        "commas, or auto (default)",
    )
    engine.add_argument(
        "--draft-rows",
        type=int,
        metavar="N",
        help="rows of a step: the last token and the drafts behind it (default: chosen for each step)",
    )
    engine.add_argument(
        "--verify",
        choices=("exact", "token", "block"),
        default="exact",
        help="how drafts are accepted where tokens are drawn: as without drafts, or with the same distribution and "
        "faster (default: exact)",
    )
    engine.add_argument(
        "--activations",
        choices=("auto", "full", "quantised"),
        default="auto",
        help="inputs of quantised weights: as they are, or quantised where the checkpoint says so "
        "(default: quantised on CUDA)",
    )
    engine.add_argument(
        "--kv-cache",
        choices=("full", "fp8"),
        default="full",
        help="cached keys and values: in the dtype of the model, or rounded to FP8 in less memory (default: full)",
    )


def add_device(group: Any) -> None:
    """Where a model runs, and in which precision."""
    group.add_argument("--device", help="cpu, cuda or cuda:N (default: cuda if there is one)")
    group.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        help="of weights and activations (default: float32 on the CPU, else bfloat16)",
    )


def add_facts(parser: argparse.ArgumentParser) -> None:
    facts = parser.add_argument_group("facts about a checkpoint whose profile does not state them")
    facts.add_argument("--prompt", help="what the model is asked")
    facts.add_argument("--unit", choices=("page", "line"), help="what one request reads")
    facts.add_argument("--dialect", choices=("markdown", "html", "json", "text"), help="what the model writes")
    facts.add_argument("--max-output-tokens", type=int, metavar="N", help="length limit of one request")
    facts.add_argument("--min-pixels", type=int, metavar="N", help="smallest image the model is given")
    facts.add_argument("--max-pixels", type=int, metavar="N", help="largest image the model is given")
