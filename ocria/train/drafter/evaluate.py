"""How many tokens a drafter is worth: drafting and verifying as in use, against answers that are known.

    python -m ocria.train.drafter.evaluate DATA ... --target ocria/assets/nano --drafter runs/drafter/export

The answers are the target's own greedy output, so that a draft is accepted exactly where it equals them. DATA are
folders of shards as `collect` writes them.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ocria.model.checkpoint import load_model
from ocria.spec.arena import DraftState
from ocria.spec.dflash import DFlash, Target
from ocria.spec.load import load_drafter
from ocria.train.drafter.data import Answer, read_shard


@dataclass(frozen=True, slots=True)
class Score:
    """passes: of the target; tokens: that they brought, the end token included; curve: for each draft of a block, the
    share of those that could still be right (the answer was not over before) that were accepted."""

    answers: int
    passes: int
    tokens: int
    curve: tuple[float, ...]

    @property
    def accept_length(self) -> float:
        """Tokens of a target pass, the target's own included."""
        return self.tokens / max(1, self.passes)


@torch.inference_mode()
def evaluate(drafter: DFlash, target: Target, answers: Sequence[Answer], rows: int, batch: int = 64) -> Score:
    """Draft blocks of `rows` rows, greedily, from the last row of each prompt to the end of the answer."""
    accepted = torch.zeros(rows, dtype=torch.int64)
    possible = torch.zeros(rows, dtype=torch.int64)
    passes = tokens = 0
    ordered = sorted(answers, key=lambda answer: (len(answer.ids) - answer.prompt, len(answer.ids)))
    for start in range(0, len(ordered), batch):
        for right, left in _drafted(drafter, target, ordered[start : start + batch], rows):
            passes += len(right)
            tokens += int(torch.minimum(right + 1, left).sum())
            steps = torch.arange(1, rows)
            accepted[1:] += (right[:, None] >= steps).sum(0)
            possible[1:] += (left[:, None] >= steps).sum(0)
    curve = (accepted[1:] / possible[1:].clamp(min=1)).tolist()
    return Score(len(answers), passes, tokens, tuple(curve))


def _drafted(drafter: DFlash, target: Target, answers: Sequence[Answer], rows: int):
    """For each pass over the answers that are not at their end: how many drafts are right, and how many tokens were
    left, int64 `[answers]` each."""
    config, every = drafter.config, torch.arange(len(answers))
    total = torch.tensor([len(a.ids) for a in answers])
    ids = torch.nn.utils.rnn.pad_sequence([a.ids for a in answers], batch_first=True, padding_value=-1)
    ids = torch.nn.functional.pad(ids, (0, rows), value=-1)
    features = torch.nn.utils.rnn.pad_sequence([a.features for a in answers], batch_first=True).to(drafter.dtype)
    position = torch.nn.utils.rnn.pad_sequence([a.position for a in answers], batch_first=True)
    state = DraftState.allocate(config, len(answers) + 1, features.shape[1] + 1, drafter.dtype)
    length = torch.tensor([a.prompt - 1 for a in answers])
    prompt = int(length.max())
    drafter.extend(features[:, :prompt], position[:, :prompt], state, every + 1, torch.zeros_like(length), length)
    window = torch.arange(rows)
    while (live := length < total - 1).any():
        anchor = ids[every, length]
        at = position[every, length.clamp(max=position.shape[1] - 1)]
        hidden = drafter.draft(
            target, anchor, at, state, every + 1, length, live, rows, int(length[live].max()) + rows
        )
        drafts = drafter.propose(target, hidden, anchor).tokens
        truth = ids.gather(1, (length[:, None] + window[1:]))
        right = (drafts == truth).int().cumprod(1).sum(1)
        left = total - 1 - length
        yield right[live], left[live]
        count = torch.minimum(right + 1, left).masked_fill(~live, 0)
        index = (length[:, None] + window).clamp(max=features.shape[1] - 1)
        new = features.gather(1, index[:, :, None].expand(-1, -1, features.shape[2]))
        drafter.extend(new, position.gather(1, index), state, every + 1, length, count)
        length = length + count


def shown(name: str, score: Score) -> str:
    curve = " ".join(f"{100 * share:.0f}" for share in score.curve)
    return (f"{name}: accept length {score.accept_length:.2f} ({score.answers} answers, {score.tokens} tokens in "
            f"{score.passes} passes); accepted up to draft 1, 2, ... in %: {curve}")  # fmt: skip


def read_folder(folder: Path) -> list[Answer]:
    """All answers of a folder of shards."""
    return [answer for path in sorted(folder.glob("shard-*.safetensors")) for answer in read_shard(path)]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--drafter", type=Path, required=True, nargs="+")
    parser.add_argument("--rows", type=int, nargs="+", help="rows of a block (default: the drafter's block size)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    target = load_model(args.target, dtype=torch.float32)
    target.network.prepare()
    for folder in args.drafter:
        loaded = load_drafter(folder, target.config.text, dtype=torch.float32)
        loaded.network.prepare()
        for data in args.data:
            answers = read_folder(data)
            for rows in args.rows or [loaded.config.block_size]:
                score = evaluate(loaded.network, target.network, answers, rows)
                print(shown(f"{folder} {data} block {rows}", score), flush=True)


if __name__ == "__main__":
    main()
