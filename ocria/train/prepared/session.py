"""Train against the clock on one device, and bring the weights back in time."""

import argparse
import itertools
import random
import signal
import time
from pathlib import Path

import torch

import ocria
from ocria.errors import EngineError
from ocria.ops.register import torch_forms
from ocria.train.architecture import model_config
from ocria.train.batches import batches
from ocria.train.evaluate import evaluate
from ocria.train.export import load_exported
from ocria.train.learner import Learner
from ocria.train.lines import LineStream
from ocria.train.muon import Muon, fast_bf16
from ocria.train.nano import CTC_WEIGHT, JOINT_FROM, STAGES, WARM_UP, split_parameters
from ocria.train.prepared.augment import augment
from ocria.train.prepared.feed import Feed, Ready
from ocria.train.prepared.pool import Pool
from ocria.train.prepared.rendering import Workers
from ocria.train.prepared.results import Results

SYNC = 20  # steps between looks at the losses: each look waits for the device


class Session:
    """One run. The clock is the wall's, from the start of the launcher to `minutes` later; `reserve` seconds before
    that the rate is at zero, and weights, scores and log follow."""

    def __init__(self, args: argparse.Namespace):
        self.args, self.device = args, torch.device(args.device)
        self.results = Results(args.out, args.started)
        self.deadline = args.started + 60 * args.minutes
        self.stopped = False
        torch.manual_seed(args.seed)
        stages = STAGES[-1:] if args.init else STAGES
        self.stages = list(stages)
        # Workers first: they read texts and fonts while the model is made.
        self.workers = Workers(args.seed, args.workers, stages[0][1])
        learner = Learner(model_config())
        if args.init:
            load_exported(learner, args.init)
        self.learner = learner.to(self.device)
        matrices, rest = split_parameters(self.learner)
        self.optimisers = [
            Muon(matrices, lr=args.lr),
            torch.optim.AdamW(rest, lr=args.lr / 3, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.host = torch.Generator().manual_seed(args.seed)
        self.generator = torch.Generator(self.device).manual_seed(args.seed)
        self.steps = self.lines = 0
        self.waited = 0.0
        self.good: dict | None = None  # the newest weights without NaN

    def run(self) -> int:
        """Exit code: 0, or 143 where SIGTERM or SIGINT ended it early, its weights saved."""
        args = self.args
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        pool = Pool(args.tokens, args.repeats, args.pool_bytes, args.seed)
        feed = Feed(self.workers, pool, self.device)
        try:
            self.say(f"device {self.device_name}, torch {torch.__version__}, {args.workers} rendering processes, "
                     f"ocria of {Path(ocria.__file__).parent}")
            self.train(feed, pool)
        finally:
            # Also where something went wrong: what was learned is worth keeping.
            feed.close()
            if self.steps:
                self.save()
        scores = self.account(pool)
        self.results.scores(scores)  # before scoring, which may be cut short
        if not self.stopped:
            self.results.scores(scores | self.score())
        self.results.close()
        return 143 if self.stopped else 0

    def say(self, text: str) -> None:
        self.results.say(text)

    @property
    def device_name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"

    def _stop(self, *_) -> None:
        self.stopped = True

    def train(self, feed: Feed, pool: Pool) -> None:
        end = self.deadline - self.args.reserve
        first = feed.take(end)
        # The share of the time counts from the first step: what came before differs from machine to machine.
        self.began = logged = saved = time.time()
        self.span = max(1e-3, end - self.began)
        if first is None:
            raise EngineError("no batch of lines came in time", cure="give the run more minutes or fewer --tokens")
        self.say(f"first batch; {self.span:.0f} s to train")
        losses, counted, waited, rendered = [], 0, 0.0, pool.rendered
        batch = first
        while batch is not None and self.progress < 1 and not self.stopped and self.steps != self.args.steps:
            feed.stage(self.longest)
            losses.append(self.step(batch))
            if self.steps % SYNC == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()  # or thousands of steps would be enqueued beyond the deadline
            now = time.time()
            if now - logged > self.args.log_seconds:
                ctc, decoder = torch.stack(losses).nanmean(0).tolist()
                span = time.time() - logged
                self.say(f"step {self.steps:6d}  trained {(self.lines - counted) / span:6.0f}/s  rendered "
                         f"{(pool.rendered - rendered) / span:6.0f}/s  waited {(self.waited - waited) / span:4.0%}  "
                         f"ctc {ctc:6.3f}  decoder {decoder:6.3f}")
                logged, losses = time.time(), []
                counted, waited, rendered = self.lines, self.waited, pool.rendered
            if now - saved > self.args.save_seconds:
                self.save()
                saved = time.time()
            before = time.monotonic()
            batch = feed.take(end)
            self.waited += time.monotonic() - before

    @property
    def progress(self) -> float:
        return (time.time() - self.began) / self.span

    @property
    def longest(self) -> int:
        return next((longest for end, longest in self.stages if self.progress < end), self.stages[-1][1])

    @property
    def joint(self) -> bool:
        """Whether the decoder trains too."""
        return self.args.init is not None or self.progress >= JOINT_FROM

    def rate(self) -> float:
        """Factor on the learning rates."""
        warm = min(1.0, (self.steps + 1) / WARM_UP)
        return warm * min(1.0, max(0.0, (1 - self.progress) / (1 - self.args.decay_from)))

    def step(self, ready: Ready) -> torch.Tensor:
        """One step; both losses fp32 `[2]` on the device, the decoder's NaN before it trains. Waits for nothing."""
        rate = self.rate()
        self.optimisers[0].param_groups[0]["lr"] = self.args.lr * rate
        self.optimisers[1].param_groups[0]["lr"] = self.args.lr / 3 * rate
        images = ready.images
        if ready.replayed:
            fresh = len(ready.texts) - ready.replayed
            images = torch.cat([images[:fresh], augment(images[fresh:], self.generator)])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast_bf16(self.device)):
            features = self.learner.encode(images)
            ctc = self.learner.ctc_loss(features, ready.texts)
            decoder = self.learner.decoder_loss(features, ready.texts, 0.08, self.host) if self.joint else None
        loss = ctc if decoder is None else decoder + CTC_WEIGHT * ctc
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.steps += 1
        self.lines += len(ready.texts)
        none = torch.full_like(ctc, float("nan"))
        return torch.stack([ctc.detach(), none if decoder is None else decoder.detach()]).float()

    def save(self) -> None:
        """The weights into the results; after a NaN, back to the newest without one, with new momenta."""
        finite = torch.stack([p.isfinite().all() for p in self.learner.parameters()]).all()
        if finite:
            self.good = {name: t.to("cpu", copy=True) for name, t in self.learner.state_dict().items()}
            self.results.weights(self.learner)
            return
        if self.good is None:
            raise FloatingPointError("the weights became NaN before they were saved once: lower --lr")
        self.say("weights became NaN: back to those saved last")
        self.learner.load_state_dict(self.good)
        for optimiser in self.optimisers:
            optimiser.state.clear()

    def account(self, pool: Pool) -> dict:
        """What the run did, and what bound it."""
        span = time.time() - self.began
        waited = self.waited / span
        bound = "rendering" if waited > 0.1 else "the device"
        self.say(f"{self.steps} steps, {self.lines} lines trained, {pool.rendered} rendered "
                 f"({pool.rendered / span:.0f}/s), {pool.replayed / max(1, self.lines):.0%} of the trained lines "
                 f"again; waited {waited:.0%}: bound by {bound}")
        return {
            "device": self.device_name, "torch": torch.__version__, "stopped": self.stopped,
            "minutes": self.args.minutes, "training_seconds": round(span, 1), "steps": self.steps,
            "lines_trained": self.lines, "lines_rendered": pool.rendered, "lines_replayed": pool.replayed,
            "workers": self.args.workers, "waited_share": round(waited, 3), "bound_by": bound,
        }  # fmt: skip

    def score(self) -> dict:
        """Error rates in percent on held-out lines, those of `ocria.train.nano`, in shuffled order until the time is
        up; without one line {}."""
        # The weights are safe by now: half of what is left for lines, and nothing that cannot be cut.
        until = time.time() + 0.5 * (self.deadline - time.time())
        stream = itertools.takewhile(lambda _: time.time() < until, iter(LineStream(7, "held_out")))
        groups = list(batches(itertools.islice(stream, self.args.score_lines), 10**9, limit=24))
        random.Random(self.args.seed).shuffle(groups)
        read = []

        def in_time():
            for group in groups:
                if time.time() > self.deadline - 5:
                    return
                read.append(len(group.texts))
                yield group

        first = next(source := in_time(), None)
        if first is None:
            self.say("no batch of held-out lines of one width came in time: nothing is scored")
            return {}
        with torch_forms():
            score = evaluate(self.learner, itertools.chain([first], source), self.joint)
        decoder = "" if score.decoder is None else f", decoder {score.decoder:.2f} %"
        self.say(f"{sum(read)} held-out lines: CTC {score.ctc:.2f} %{decoder}")
        for errors, truth, got in score.worst[:6]:
            self.say(f"    {errors:3d}  {truth!r}  {got!r}")
        return {"held_out_lines": sum(read), "ctc_cer": round(score.ctc, 3),
                "decoder_cer": None if score.decoder is None else round(score.decoder, 3)}  # fmt: skip
