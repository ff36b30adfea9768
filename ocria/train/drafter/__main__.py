"""Train a drafter on what `collect` gathered.

    python -m ocria.train.drafter.collect --target ocria/assets/nano --out runs/drafter/data
    python -m ocria.train.drafter --target ocria/assets/nano --data runs/drafter/data --out runs/drafter/first \\
        --version 1 --minutes 40 --decay-from 1
    python -m ocria.train.drafter --target ocria/assets/nano --data runs/drafter/data --out runs/drafter/second \\
        --version 2 --init runs/drafter/first/export --minutes 40

Time is the budget: warm-up, a constant rate, a linear decay to zero over the last part. Stop it any time; started again
with the same --out it goes on. `export` under --out always holds the newest weights.
"""

import sys

import torch

from ocria.train.drafter.train import Run, arguments


def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    torch.set_num_threads(args.threads)
    run = Run(args)
    try:
        run.train()
    except KeyboardInterrupt:
        print("interrupted, saving", file=sys.stderr)
        run.save()


if __name__ == "__main__":
    main()
