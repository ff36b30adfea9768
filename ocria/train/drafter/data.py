"""Lines or pages with the target's own greedy output, in shards on the disk.

A shard is a safetensors file. Shard number i always holds the same images, so that collecting goes on where it was
stopped. Where the text of an image is believed to be known, one pass of the target shows whether it is its own answer;
only the others are decoded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from ocria.train.drafter.teacher import Prompt, Teacher

Source = Callable[[int], Iterable[tuple[np.ndarray, str | None]] | None]
"""Number of a shard -> its images uint8 `[H, W]` or `[H, W, 3]`, each with the text that it is believed to hold; None
where there are no more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the target. ids int64 `[P + L]`: prompt, then output, the last of which was never fed; position
    int64 `[P + L - 1]` and features bf16 `[P + L - 1, taps * D]` of the rows that were; prompt: P."""

    ids: torch.Tensor
    prompt: int
    position: torch.Tensor
    features: torch.Tensor


def collect(
    teacher: Teacher, source: Source, folder: Path, first: int, shards: int, batch: int = 24, say=print
) -> None:
    """Fill `folder` with shards `first` .. `shards` - 1, those that are missing. A source may end before."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, shards):
        path = shard_path(folder, number)
        if path.exists():
            continue
        samples = source(number)
        if samples is None:
            return
        answers = taught(teacher, samples, batch)
        if not answers:  # blank pages
            continue
        part = path.with_suffix(".part")
        save_file(joined(answers), part)
        part.replace(path)
        say(f"{path}: {len(answers)} answers, {sum(len(a.ids) - a.prompt for a in answers)} tokens")


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.safetensors"


def taught(teacher: Teacher, samples: Iterable[tuple[np.ndarray, str | None]], batch: int) -> list[Answer]:
    """The answers to all images, those to images of one size in passes of up to `batch`."""
    answers: list[Answer] = []
    images: list[np.ndarray] = []
    guessed: list[tuple[Prompt, list[int]]] = []
    unsure: list[tuple[np.ndarray, Prompt]] = []
    for image, text in samples:
        prompt = teacher.prompt(image)
        if text is None:
            unsure.append((image, prompt))
        else:
            guessed.append((prompt, [*teacher.loaded.tokenizer.encode(text), teacher.stop_id]))
            images.append(image)
    numbers = {id(prompt): number for number, (prompt, _) in enumerate(guessed)}
    for group, made in forced_groups(teacher, guessed, batch):
        for (prompt, _), answer, own in zip(group, *made, strict=True):
            if own:
                answers.append(answer)
            else:
                unsure.append((images[numbers[id(prompt)]], prompt))
    outputs = teacher.greedy([image for image, _ in unsure]) if unsure else []
    decoded = [(prompt, output) for (_, prompt), output in zip(unsure, outputs, strict=True) if len(output) > 1]
    for _, (more, _) in forced_groups(teacher, decoded, batch):
        answers += more
    return answers


def forced_groups(
    teacher: Teacher, pairs: Sequence[tuple[Prompt, list[int]]], batch: int
) -> Iterator[tuple[list, tuple[list[Answer], list[bool]]]]:
    """Passes over prompts and outputs: the pairs of each, their answers, and whether the target chose that output."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].grid, len(pair[0].ids), len(pair[1])))
    for _, equal in groupby(ordered, key=lambda pair: (pair[0].grid, len(pair[0].ids))):
        equal = list(equal)
        for start in range(0, len(equal), batch):
            group = equal[start : start + batch]
            yield group, _forced(teacher, group)


def _forced(teacher: Teacher, group: list[tuple[Prompt, list[int]]]) -> tuple[list[Answer], list[bool]]:
    longest = max(len(output) for _, output in group)
    padded = torch.tensor([output + [0] * (longest - len(output)) for _, output in group])
    made = teacher.forced([prompt for prompt, _ in group], padded[:, :-1])
    answers, own = [], []
    for row, (prompt, output) in enumerate(group):
        length = len(prompt.ids)
        fed = length + len(output) - 1
        ids = torch.cat([prompt.ids, torch.tensor(output)])
        features = made.features[row, :fed].to("cpu", torch.bfloat16)
        answers.append(Answer(ids, length, made.position[:fed].clone(), features))
        own.append(made.choice[row, : len(output)].tolist() == output)
    return answers, own


def joined(answers: Sequence[Answer]) -> dict[str, torch.Tensor]:
    """Answers as the tensors of a shard."""
    return {
        "ids": torch.cat([a.ids for a in answers]),
        "position": torch.cat([a.position for a in answers]),
        "features": torch.cat([a.features for a in answers]),
        "prompt": torch.tensor([a.prompt for a in answers]),
        "rows": torch.tensor([len(a.ids) for a in answers]),
    }


def read_shard(path: Path) -> list[Answer]:
    """The answers of a shard; the features stay in the file until they are used."""
    tensors = load_file(path)
    rows = tensors["rows"].tolist()
    fed = [count - 1 for count in rows]
    parts = zip(
        tensors["ids"].split(rows),
        tensors["prompt"].tolist(),
        tensors["position"].split(fed),
        tensors["features"].split(fed),
        strict=True,
    )
    return [Answer(*part) for part in parts]
