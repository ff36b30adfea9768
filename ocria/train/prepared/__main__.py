"""`python -m ocria.train.prepared`: one run. Started by the run.py of a prepared folder, which sets the environment.

A file of its own, so that the rendering processes, which import their parent's main module, do not import torch.
"""

import argparse
import os
import time
from pathlib import Path


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Train ocria-nano from this folder, without network.")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or "out"),
                        help="where the results go (default $OUT, or ./out)")
    parser.add_argument("--minutes", type=float, default=8, help="wall time of the whole command (default 8)")
    parser.add_argument("--reserve", type=float, metavar="SECONDS",
                        help="of it, for the last export and for scoring (default a sixth, at most 75)")
    parser.add_argument("--device", help="default cuda where there is one, else cpu")
    parser.add_argument("--workers", type=int, help="rendering processes (default: all cores but one)")
    parser.add_argument("--tokens", type=int, help="image tokens of a batch (default 12000, on a CPU 1100)")
    parser.add_argument("--repeats", type=int, default=6, help="how often a line is trained on at most (default 6)")
    parser.add_argument("--pool-gb", type=float, help="memory for rendered lines (default 24, on a CPU 1)")
    parser.add_argument("--lr", type=float, help="Muon's rate (default 6e-3, with weights to start from 2e-3)")
    parser.add_argument("--decay-from", type=float, default=0.4, help="share of the time before the decay")
    parser.add_argument("--steps", type=int, help="end after so many steps, if the time is not up before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-seconds", type=float, default=10)
    parser.add_argument("--save-seconds", type=float, default=45)
    parser.add_argument("--score-lines", type=int, default=500, help="held-out lines to score (default 500)")
    parser.add_argument("--from-nothing", action="store_true", help="do not start from the weights in the folder")
    return parser.parse_args(argv)


def main() -> int:
    args = arguments()
    import torch

    from ocria.train.nano import RATE, RATE_ON
    from ocria.train.prepared.session import Session

    args.started = float(os.environ.get("OCRIA_RUN_STARTED") or time.time())
    args.device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    gpu = args.device.startswith("cuda")
    init = os.environ.get("OCRIA_RUN_INIT")
    args.init = Path(init) if init and not args.from_nothing else None
    args.lr = args.lr or (RATE_ON if args.init else RATE)
    args.tokens = args.tokens or (12_000 if gpu else 1100)
    args.pool_bytes = int(1e9 * (args.pool_gb or (24 if gpu else 1)))
    cores = len(os.sched_getaffinity(0))
    args.workers = args.workers or max(1, cores - 1)
    args.reserve = min(75.0, 10 * args.minutes) if args.reserve is None else args.reserve
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(1 if not gpu else 2)
    return Session(args).run()


if __name__ == "__main__":
    raise SystemExit(main())
