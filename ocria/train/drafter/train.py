"""One training run of a drafter: network, optimisers, clock, log."""

import argparse
import json
import time
from pathlib import Path

import torch

from ocria.model.checkpoint import load_model
from ocria.train.drafter.blocks import Blocks, block_hidden
from ocria.train.drafter.evaluate import evaluate, read_folder, shown
from ocria.train.drafter.export import export, train_on
from ocria.train.drafter.feed import Feed
from ocria.train.drafter.loss import Losses, losses
from ocria.train.drafter.shape import drafter_config, new_drafter
from ocria.train.muon import Muon

WARM_UP = 100  # steps
_LOG_SECONDS = 30


class Run:
    """A run goes on from `last.pt` under its folder where there is one. `export` beside it holds the newest weights."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.device = torch.device(args.device)
        args.out.mkdir(parents=True, exist_ok=True)
        loaded = load_model(args.target, dtype=torch.float32, device=self.device)
        self.target = loaded.network.requires_grad_(False)
        self.generator = torch.Generator().manual_seed(args.seed)
        self.checkpoint = args.out / "last.pt"
        saved = torch.load(self.checkpoint, weights_only=True) if self.checkpoint.exists() else None
        self.drafter, self.config = self._drafter(loaded, None if saved is None else json.loads(saved["config"]))
        self.config["dflash_config"]["any_block_size"] = args.shorter > 0
        self.drafter.to(self.device).train()
        matrices, rest = split_parameters(self.drafter)
        self.optimisers = [
            Muon(matrices, lr=args.lr),
            torch.optim.AdamW(rest, lr=args.lr / 3, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        size = self.drafter.config.block_size
        self.feed = Feed(args.data, args.blocks, size, args.seed, args.stride, args.shorter)
        self.elapsed, self.steps, self.blocks = 0.0, 0, 0
        if saved is not None:
            self._restore(saved)
        self.held_out = read_folder(args.held_out) if args.held_out else []

    def _drafter(self, loaded, config):
        """What --init names, or a new one; where a run goes on its weights come later."""
        args, text = self.args, loaded.config.text
        if config is None and args.init:
            return train_on(args.init, args.version, self.generator, args.layers)
        if config is None:
            mask = loaded.tokenizer.id_of("<|mask|>") if args.mask is None else args.mask
            taps = args.taps or list(range(text.num_hidden_layers))
            config = drafter_config(text, version=args.version, mask_token_id=mask, taps=taps, layers=args.layers or 3,
                                    block_size=args.block_size)  # fmt: skip
        scale = loaded.network.model.language_model.norm.scale.cpu()
        return new_drafter(config, scale, self.generator), config

    def _restore(self, saved: dict) -> None:
        self.drafter.load_state_dict(saved["drafter"])
        for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.elapsed, self.steps, self.blocks = saved["elapsed"], saved["steps"], saved["blocks"]
        print(f"continuing at {self.elapsed / 60:.1f} min, step {self.steps}", flush=True)

    def save(self) -> None:
        part = self.checkpoint.with_suffix(".part")
        torch.save({
            "drafter": self.drafter.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "config": json.dumps(self.config),
            "elapsed": self.elapsed, "steps": self.steps, "blocks": self.blocks,
        }, part)  # fmt: skip
        part.replace(self.checkpoint)
        export(self.drafter, self.config, self.args.out / "export")

    @property
    def progress(self) -> float:
        """Share of the budget that is spent: of the steps where they are limited, else of the time."""
        if self.args.steps:
            return self.steps / self.args.steps
        return self.elapsed / (60 * self.args.minutes)

    def train(self) -> None:
        logged = evaluated = last = time.monotonic()
        sums, since = torch.zeros(2), self.steps
        while self.progress < 1:
            made = self.step(self.feed.batch(self.steps))
            sums += torch.tensor([made.unary.item(), made.selector.item()])
            now = time.monotonic()
            self.elapsed, last = self.elapsed + now - last, now
            if now - logged > _LOG_SECONDS:
                count = self.steps - since
                unary, selector = (sums / count).tolist()
                print(f"{self.elapsed / 60:6.1f} min  step {self.steps:6d}  blocks {self.blocks:8d}  "
                      f"{count / (now - logged):5.2f} steps/s  unary {unary:.4f}  selector {selector:.4f}  "
                      f"shards {len(self.feed.shards)}", flush=True)
                self.feed.look()
                logged, sums, since = now, torch.zeros(2), self.steps
            if now - evaluated > 60 * self.args.eval_minutes:
                self.report()
                evaluated = last = time.monotonic()  # scoring is not training
        self.report()

    def step(self, blocks: Blocks) -> Losses:
        rate = self.rate()
        self.optimisers[0].param_groups[0]["lr"] = self.args.lr * rate
        self.optimisers[1].param_groups[0]["lr"] = self.args.lr / 3 * rate
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.args.autocast):
            made = self._losses(blocks.to(self.device))
        made.total.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.steps += 1
        self.blocks += blocks.row.numel()
        return made

    def _losses(self, blocks: Blocks) -> Losses:
        hidden = block_hidden(self.drafter, self.target, blocks)
        labels = blocks.labels.flatten(0, 1)
        return losses(self.drafter, self.target, hidden, blocks.anchor.flatten(), labels, self.args.gamma)

    def rate(self) -> float:
        """Factor on the learning rates: warm-up by steps, constant, then linear to zero."""
        warm = min(1.0, (self.steps + 1) / WARM_UP)
        end = max(1e-9, 1 - self.args.decay_from)
        return warm * min(1.0, max(0.0, (1 - self.progress) / end))

    def report(self) -> None:
        """Save, export, score the held-out answers."""
        self.save()
        if self.held_out:
            score = evaluate(self.drafter, self.target, self.held_out, self.drafter.config.block_size)
            print(f"{self.elapsed / 60:6.1f} min  {shown('HELD OUT', score)}", flush=True)


def split_parameters(drafter: torch.nn.Module) -> tuple[list, list]:
    """Matrices for Muon; norms, codebooks and what shapes convolutions for AdamW."""
    matrices, rest = [], []
    for name, p in drafter.named_parameters():
        hidden = p.ndim == 2 and "codebook" not in name and "kernel_projection" not in name
        (matrices if hidden else rest).append(p)
    return matrices, rest


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    from ocria.train.drafter import __main__ as front

    parser = argparse.ArgumentParser(description=front.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="folder or name of the model to draft for")
    parser.add_argument("--data", type=Path, required=True, help="shards of `collect`; new ones are taken up")
    parser.add_argument("--held-out", type=Path, help="shards to score on")
    parser.add_argument("--out", type=Path, default=Path("runs/drafter"))
    parser.add_argument("--version", type=int, choices=(1, 2), default=2, help="DFlash or DFlash2")
    parser.add_argument("--init", type=Path, metavar="FOLDER", help="exported drafter to train on; a DFlash may become "
                                                                    "a DFlash2")
    parser.add_argument("--minutes", type=float, default=40, help="training time in all, over every restart")
    parser.add_argument("--steps", type=int, help="a budget in steps instead")
    parser.add_argument("--decay-from", type=float, default=0.5, help="share of the budget before the decay")
    parser.add_argument("--lr", type=float, default=6e-3, help="Muon's rate; the rest learns at a third of it")
    parser.add_argument("--gamma", type=float, default=7.0, help="rows after which a draft's weight has fallen to 1/e")
    parser.add_argument("--blocks", type=int, default=256, help="blocks of a batch")
    parser.add_argument("--stride", type=int, default=8, help="tokens of output for each block drawn from them")
    parser.add_argument("--shorter", type=float, default=0.3, help="share of batches with blocks of fewer rows")
    parser.add_argument("--layers", type=int, help="(default: 3); with --init, fewer than it has: some are taken out")
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--taps", type=int, nargs="+", help="the layers of the data (default: all)")
    parser.add_argument("--mask", type=int, help="token that stands for a draft (default: <|mask|>)")
    parser.add_argument("--eval-minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-autocast", dest="autocast", action="store_false", help="fp32 products instead of bf16")
    return parser.parse_args(argv)
