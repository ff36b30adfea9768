"""Train ocria-nano from nothing on synthetic lines.

    python -m ocria.train.nano --out runs/nano --minutes 100

First the vision encoder alone by CTC on short, then whole lines; then the decoder joins. Time, not steps, is
the budget: warm-up, a constant rate, a linear decay to zero over the last part. Stop it any time; started again
with the same --out it continues. `export` under --out always holds the newest weights in the shipped format.

    python -m ocria.train.nano --out runs/on --init ocria/assets/nano --minutes 90 --wall-clock

trains shipped weights on: both losses and whole lines from the start, new optimisers, a lower rate.

    python -m ocria.train.nano --prepare FOLDER [--init ocria/assets/nano]

trains nothing: FOLDER then holds all that a run needs on a machine with CUDA and no network (FOLDER/README.txt).
"""

import argparse
import itertools
import time
from pathlib import Path

import torch

from ocria.train.architecture import model_config
from ocria.train.batches import Renderer, batches
from ocria.train.evaluate import evaluate
from ocria.train.export import export, load_exported
from ocria.train.learner import Learner
from ocria.train.mining import hardest
from ocria.train.muon import Muon, fast_bf16
from ocria.train.together import Together

# Share of the budget at which a stage ends, and the longest line in it.
STAGES = ((0.02, 12), (0.06, 40), (1.0, 140))
JOINT_FROM = 0.20  # share of the budget after which the decoder trains too
DECAY_FROM = 0.60
RATE = 6e-3  # Muon's; the rest learns at a third of it
RATE_ON = 2e-3  # of weights that were trained before: what they forget at the old rate costs more than it brings
WARM_UP = 150  # steps
CTC_WEIGHT = 0.3


def main() -> None:
    args = arguments()
    if args.prepare:
        from ocria.train.prepared.pack import prepare

        prepare(args.prepare, args.init, args.text_limit)
        return
    if args.processes == 1:
        return work(0, args)
    torch.multiprocessing.spawn(work, args=(args,), nprocs=args.processes)


def work(rank: int, args: argparse.Namespace) -> None:
    """One training process; rank 0 logs, evaluates and saves."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    run = Run(args, rank)
    try:
        run.train()
    except KeyboardInterrupt:
        run.say("interrupted, saving")
        if rank == 0:
            run.save()
        return
    run.together.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/nano"))
    parser.add_argument("--minutes", type=float, default=100, help="training time in all, over every restart")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="training processes, one thread each")
    parser.add_argument("--port", type=int, default=29531, help="loopback port where the processes meet")
    parser.add_argument("--workers", type=int, default=1, help="processes that render lines")
    parser.add_argument("--tokens", type=int, default=1100, help="image tokens of a batch")
    parser.add_argument("--surplus", type=int, default=1, metavar="N",
                        help="render N times the lines, train on the hardest and some of the rest (default 1)")
    parser.add_argument("--lr", type=float, help=f"Muon's rate (default {RATE:g}; with --init {RATE_ON:g})")
    parser.add_argument("--decay-from", type=float, default=DECAY_FROM, help="share of the time before the decay")
    parser.add_argument("--eval-minutes", type=float, default=6)
    parser.add_argument("--save-minutes", type=float, default=6)
    parser.add_argument("--init", type=Path, metavar="FOLDER", help="exported weights with their CTC head to train on")
    parser.add_argument("--wall-clock", action="store_true",
                        help="count the minutes from the first start, pauses and scoring included")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER",
                        help="write a run for another machine there, with --init, and end")
    parser.add_argument("--text-limit", type=int, default=3_000_000, metavar="N",
                        help="with --prepare: characters kept of each text source (default 3000000)")
    args = parser.parse_args()
    args.lr = args.lr or (RATE_ON if args.init else RATE)
    return args


class Run:
    """One training run: model, optimisers, clock, log."""

    def __init__(self, args: argparse.Namespace, rank: int):
        self.args, self.rank = args, rank
        self.together = Together(rank, args.processes, args.port)
        args.out.mkdir(parents=True, exist_ok=True)
        self.learner = Learner(model_config())
        matrices, rest = split_parameters(self.learner)
        self.optimisers = [
            Muon(matrices, lr=args.lr),
            torch.optim.AdamW(rest, lr=args.lr / 3, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.elapsed = self.clock = 0.0  # seconds of training: shared at meetings, and this process's own
        self.started = time.time()
        self.steps = self.lines = 0
        self.generator = torch.Generator().manual_seed(args.seed + rank)
        if args.init:
            load_exported(self.learner, args.init)
        self.checkpoint = args.out / "last.pt"
        if self.checkpoint.exists():
            self.restore()
        self.held_out = None

    def restore(self) -> None:
        saved = torch.load(self.checkpoint, weights_only=True)
        self.learner.load_state_dict(saved["learner"])
        for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.elapsed, self.steps, self.lines = saved["elapsed"], saved["steps"], saved["lines"]
        self.clock, self.started = self.elapsed, saved["started"]
        if self.rank == 0:
            self.generator.set_state(saved["generator"])
        self.say(f"continuing at {self.elapsed / 60:.1f} min, step {self.steps}")

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)

    def save(self) -> None:
        part = self.checkpoint.with_suffix(".part")
        torch.save({
            "learner": self.learner.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "elapsed": self.elapsed, "steps": self.steps, "lines": self.lines,
            "started": self.started, "generator": self.generator.get_state(),
        }, part)  # fmt: skip
        part.replace(self.checkpoint)
        if self.joint:
            export(self.learner, self.args.out / "export")

    @property
    def progress(self) -> float:
        return self.elapsed / (60 * self.args.minutes)

    @property
    def joint(self) -> bool:
        """Whether the decoder trains too."""
        return self.args.init is not None or self.progress >= JOINT_FROM

    def train(self) -> None:
        stages = STAGES[-1:] if self.args.init else STAGES
        while self.progress < 1:
            end, longest = next(stage for stage in stages if self.progress < stage[0])
            seed = (self.args.seed + self.steps) * 64 + self.rank
            renderer = Renderer(seed, self.args.tokens, self.args.workers, self.args.surplus, max_chars=longest)
            try:
                self.stage(iter(renderer), end)
            finally:
                renderer.close()

    def stage(self, source, end: float) -> None:
        logged = evaluated = saved = self.elapsed
        losses, waited, seen, met = [], 0.0, self.lines, self.lines
        last = time.monotonic()
        while self.progress < end:
            batch = next(source)
            waited += time.monotonic() - last
            losses.append(self.step(batch))
            now = time.monotonic()
            self.clock = time.time() - self.started if self.args.wall_clock else self.clock + now - last
            last = now
            if not self.together.due():
                continue
            # The clock that ends stages moves only here, so that every process ends them at the same meeting.
            self.elapsed, lines = self.together.meet(self.learner, self.clock, self.lines - met)
            self.clock, self.lines, met = self.elapsed, met + lines, met + lines
            if self.elapsed - logged > 30:
                ctc, decoder = (sum(column) / len(column) for column in zip(*losses, strict=True))
                rate = (self.lines - seen) / (self.elapsed - logged)
                self.say(f"{self.elapsed / 60:6.1f} min  step {self.steps:6d}  lines {self.lines:8d}  {rate:5.1f}/s  "
                         f"waited {waited / (self.elapsed - logged):4.0%}  ctc {ctc:6.3f}  decoder {decoder:6.3f}")
                logged, losses, waited, seen = self.elapsed, [], 0.0, self.lines
            if self.elapsed - evaluated > 60 * self.args.eval_minutes:
                self.report()
                evaluated, last = self.elapsed, time.monotonic()
            elif self.elapsed - saved > 60 * self.args.save_minutes and self.rank == 0:
                self.save()
                saved = self.elapsed
        self.report()

    def step(self, batch) -> tuple[float, float]:
        rate = self.rate()
        self.optimisers[0].param_groups[0]["lr"] = self.args.lr * rate
        self.optimisers[1].param_groups[0]["lr"] = self.args.lr / 3 * rate
        with torch.autocast("cpu", torch.bfloat16, enabled=fast_bf16(torch.device("cpu"))):
            batch = hardest(self.learner, batch, self.args.surplus, self.generator)
            features = self.learner.encode(torch.from_numpy(batch.images))
            ctc = self.learner.ctc_loss(features, batch.texts)
            decoder = self.learner.decoder_loss(features, batch.texts, 0.08, self.generator) if self.joint else None
        loss = ctc if decoder is None else decoder + CTC_WEIGHT * ctc
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.steps += 1
        self.lines += len(batch.texts)
        return ctc.item(), float("nan") if decoder is None else decoder.item()

    def rate(self) -> float:
        """Factor on the learning rates."""
        warm = min(1.0, (self.steps + 1) / WARM_UP)
        return warm * min(1.0, max(0.0, (1 - self.progress) / (1 - self.args.decay_from)))

    def report(self) -> None:
        """Save, export, score held-out lines; only rank 0, the others wait for it at the next meeting."""
        if self.rank:
            return
        self.save()
        from ocria.train.lines import LineStream

        if self.held_out is None:
            lines = itertools.islice(LineStream(7, "held_out"), 500)
            self.held_out = sorted(batches(lines, 10**9, limit=24), key=lambda b: b.images.shape[2])
        started = time.monotonic()
        score = evaluate(self.learner, self.held_out, self.joint)
        decoder = "" if score.decoder is None else f"  decoder {score.decoder:.2f} %"
        print(f"{self.elapsed / 60:6.1f} min  HELD OUT  ctc {score.ctc:.2f} %{decoder}  "
              f"({time.monotonic() - started:.0f} s)", flush=True)
        for errors, truth, read in score.worst[:4]:
            print(f"        {errors:3d}  {truth!r}\n             {read!r}", flush=True)


def split_parameters(learner: Learner) -> tuple[list, list]:
    """Matrices of hidden layers for Muon; embeddings, heads, patch embedding, convolutions, vectors for AdamW."""
    matrices, rest = [], []
    for name, p in learner.named_parameters():
        hidden = p.ndim == 2 and not any(part in name for part in ("embed", "ctc.", "in_proj_a", "in_proj_b"))
        (matrices if hidden else rest).append(p)
    return matrices, rest


if __name__ == "__main__":
    main()
