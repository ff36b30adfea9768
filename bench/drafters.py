"""How many tokens is a drafter worth on real documents?

    python bench/drafters.py --drafter ocria/assets/nano/drafter
    python bench/drafters.py --drafter runs/first/export runs/second/export --group books --rows 8 16

The target reads the lines of each document greedily; then drafts are verified against what it read, block by block,
from the first row of each line to its end. What it read, and what its layers held, is kept in --cache for the next
time. The last line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from readers import grey_image
from samples import GROUPS, SamplesNotFound, find_samples, image_file, load_items
from tesseract import cache_folder

from ocria.document.reader import NANO
from ocria.errors import OcriaError
from ocria.model.checkpoint import load_model
from ocria.model.line import crop_to_ink
from ocria.spec.load import load_drafter
from ocria.train.drafter.data import collect
from ocria.train.drafter.evaluate import Score, evaluate, read_folder
from ocria.train.drafter.sources import line_images, pieces
from ocria.train.drafter.teacher import Teacher

SCORED = [group for group in GROUPS if group != "turned"]  # pages are cut into lines as they lie


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", metavar="DIR", help="the real samples (default: OCRIA_SAMPLES)")
    parser.add_argument("--target", type=Path, default=NANO, metavar="FOLDER")
    parser.add_argument("--drafter", type=Path, nargs="+", required=True, metavar="FOLDER")
    parser.add_argument("--group", action="append", choices=SCORED, help="repeatable; default all")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N items of each group")
    parser.add_argument("--rows", type=int, nargs="+", help="rows of a block (default: the drafter's block size)")
    parser.add_argument("--cache", type=Path, help="where answers are kept (default: the benches' cache)")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(argv)


def answers_of(group: str, items: list, teacher: Teacher, folder: Path) -> list:
    """What the target reads in the items of a group, a shard an item."""

    def lines(number: int) -> Iterator[tuple[np.ndarray, None]]:
        gray = grey_image(image_file(items[number], cache_folder()))
        cut = pieces(crop_to_ink(gray)) if GROUPS[group].unit == "line" else line_images(gray)
        return ((line, None) for line in cut)

    collect(teacher, lines, folder / group, 0, len(items), say=lambda text: print(text, file=sys.stderr))
    return read_folder(folder / group)


def shown(scores: dict[str, dict[str, Score]]) -> list[str]:
    """A table: a row a group, a column a drafter."""
    names = list(scores)
    lines = ["| group | lines | tokens | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    for group in scores[names[0]]:
        first = scores[names[0]][group]
        found = " | ".join(f"{scores[name][group].accept_length:.2f}" for name in names)
        lines.append(f"| {group} | {first.answers} | {first.tokens} | {found} |")
    lines += ["", "Accepted up to draft 1, 2, ... in %, of drafts that the end of the line left possible:"]
    for name in names:
        lines.append(f"{name}: " + " ".join(f"{100 * share:.0f}" for share in scores[name]["all"].curve))
    return lines


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    torch.set_num_threads(args.threads)
    groups = [group for group in SCORED if not args.group or group in args.group]
    cache = args.cache or cache_folder() / "drafters"
    try:
        items = load_items(find_samples(args.samples), groups, limit=args.limit)
        target = load_model(args.target, dtype=torch.float32)
        drafters = {str(folder): load_drafter(folder, target.config.text, dtype=torch.float32)
                    for folder in args.drafter}  # fmt: skip
        taps = {loaded.config.target_layer_ids for loaded in drafters.values()}
        if len(taps) > 1:
            print("drafters: these drafters read different layers; run them one by one", file=sys.stderr)
            return 2
        teacher = Teacher(target, *taps)
        folder = cache / f"{args.target.name}-{'-'.join(map(str, *taps))}"
        answers = {group: answers_of(group, [item for item in items if item.group == group], teacher, folder)
                   for group in groups}  # fmt: skip
    except (SamplesNotFound, OcriaError) as error:
        print(f"drafters: {error}", file=sys.stderr)
        return 2
    answers["all"] = [answer for found in answers.values() for answer in found]
    scores: dict[str, dict[str, Score]] = {}
    for name, loaded in drafters.items():
        loaded.network.prepare()
        for rows in args.rows or [loaded.config.block_size]:
            key = f"{name} block {rows}"
            scores[key] = {group: evaluate(loaded.network, target.network, found, rows)
                           for group, found in answers.items() if found}  # fmt: skip
            print(f"{key}: {scores[key]['all'].accept_length:.2f}", file=sys.stderr)
    print("\n".join(shown(scores)))
    document = {
        key: {group: {"answers": s.answers, "tokens": s.tokens, "passes": s.passes, "accept_length": s.accept_length,
                      "curve": s.curve} for group, s in by_group.items()}
        for key, by_group in scores.items()
    }  # fmt: skip
    print(json.dumps({"bench": "drafters", "scores": document}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
