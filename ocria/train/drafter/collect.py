"""Collect a drafter's training data: the target's own answers, and what its layers hold.

    python -m ocria.train.drafter.collect --target ocria/assets/nano --out runs/drafter/data --shards 40
    python -m ocria.train.drafter.collect --target MODEL --out runs/drafter/data --pages scans/ more.pdf

Without --pages the images are the synthetic lines that ocria-nano was trained on. Started again with the same --out
it goes on with the first shard that is missing.
"""

import argparse
from pathlib import Path

import torch

from ocria.model.checkpoint import load_model
from ocria.train.drafter.data import collect
from ocria.train.drafter.sources import page_images, synthetic_lines
from ocria.train.drafter.teacher import Teacher


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="folder or name of the model to draft for")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--taps", type=int, nargs="+", help="layers whose outputs are features (default: all)")
    parser.add_argument("--shards", type=int, default=40, help="most shards in all")
    parser.add_argument("--first", type=int, default=0, help="begin with this shard")
    parser.add_argument("--size", type=int, default=512, help="lines, or pages, of a shard")
    parser.add_argument("--pages", type=Path, nargs="+", metavar="PATH", help="images, PDFs, or folders of them")
    parser.add_argument("--split", choices=("train", "held_out"), default="train", help="of the synthetic lines")
    parser.add_argument("--seed", type=int, default=1, help="of the synthetic lines")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    loaded = load_model(args.target, dtype=getattr(torch, args.dtype), device=args.device)
    teacher = Teacher(loaded, args.taps or range(loaded.config.text.num_hidden_layers))
    if args.pages:
        source = page_images(args.pages, loaded.profile.require("unit"), args.size)
    else:
        source = synthetic_lines(args.seed, args.size, args.split)
    collect(teacher, source, args.out, args.first, args.shards, say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
