"""Endless synthetic text lines, each a grey crop with its truth: the data of the line reader.

`python -m ocria.train.lines --sheet out.png --n 60` draws a contact sheet with the truths.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ocria.train import crop, render, scan
from ocria.train.corpus import corpus
from ocria.train.fonts import FontSet, font_set
from ocria.train.style import Style, can_set, draw_style
from ocria.train.textgen import Text, TextSource
from ocria.train.typography import typewritten

SPLITS = ("train", "held_out")


@dataclass(frozen=True)
class LineSample:
    """image: uint8 [h, w], grey, a line finder's crop; text: its truth (NFC, inside CHARSET); kind: of the
    text; font: family, style and profile of the degradations, as "Old Standard/italic/bilevel"."""

    image: np.ndarray
    text: str
    kind: str
    font: str


@dataclass(frozen=True)
class LineStream:
    """Lines of one split, the same for the same seed. The splits share neither fonts nor text sources."""

    seed: int
    split: str = "train"
    max_chars: int = 140
    min_chars: int = 1

    def __post_init__(self):
        if self.split not in SPLITS:
            raise ValueError(f"split {self.split!r} is none of {', '.join(SPLITS)}")
        if not 1 <= self.min_chars <= self.max_chars:
            raise ValueError(f"min_chars {self.min_chars} and max_chars {self.max_chars} are no range")

    def __iter__(self) -> Iterator[LineSample]:
        rng = random.Random(f"{self.seed}/{self.split}/{self.min_chars}/{self.max_chars}")
        texts = TextSource(corpus(self.split), self.min_chars, self.max_chars)
        fonts = font_set(self.split)
        while True:
            text = texts.draw(rng)
            sample = _line(text, texts, fonts, rng)
            if sample is not None:
                yield sample


def _line(drawn: Text, texts: TextSource, fonts: FontSet, rng: random.Random) -> LineSample | None:
    """The sample of one text, or None where eight draws find no face that has its characters or no ink is left."""
    noise = np.random.default_rng(rng.getrandbits(64))
    profile = scan.draw_profile(noise, drawn.kind)
    size = _size(rng, profile)
    for _ in range(8):
        style = draw_style(rng, fonts, drawn.text, drawn.kind, size)
        if can_set(style, drawn.text, fonts):
            break
    else:
        return None
    text = _readable(drawn, style, rng)
    ink = render.rasterise(style, text, fonts, rng)
    neighbour = None
    if rng.random() < 0.15:
        other, plain = texts.draw(rng).text, Style(style.face, size, style.widen)
        if can_set(plain, other, fonts):
            neighbour = render.rasterise(plain, other, fonts, rng)
    mask = crop.cut(ink, neighbour, rng, noise)
    if mask is None:
        return None
    image = scan.scan(crop.furnish(mask, rng), profile, noise, 0.46 * size)
    return LineSample(image, text, drawn.kind, f"{style.face.family}/{style.face.style}/{profile}")


_NO_TWINS = str.maketrans({"I": "E", "l": "k", "|": "/"})


def _readable(drawn: Text, style: Style, rng: random.Random) -> str:
    """The text without what its face cannot tell apart: I, l and | of a sans serif outside words; dashes of
    one width."""
    if drawn.kind == "random" and style.face.group == "sans":
        return drawn.text.translate(_NO_TWINS)
    if style.face.group in ("mono", "other", "printer") and rng.random() < 0.85:
        return typewritten(drawn.text)
    return drawn.text


def _size(rng: random.Random, profile: str) -> float:
    """Pixels to the em: 7 to 15 points at 150 to 400 dpi, smaller for a part of the born-digital lines."""
    if profile == "clean" and rng.random() < 0.35:
        return max(11.0, rng.uniform(7.5, 13) * rng.uniform(100, 170) / 72)
    dpi = rng.choice((150, 200, 200, 240, 300, 300, 300, 400))
    return max(16.0, min(80.0, rng.triangular(7, 15, 10) * dpi / 72))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ocria.train.lines", description="Look at synthetic lines."
    )
    parser.add_argument("--sheet", metavar="PNG", help="write a contact sheet")
    parser.add_argument("--n", type=int, default=60, help="lines on the sheet or in the timing (default 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=SPLITS, default="train")
    args = parser.parse_args(argv)
    stream = iter(LineStream(args.seed, args.split))
    next(stream)
    start = time.process_time()
    samples = [next(stream) for _ in range(args.n)]
    rate = args.n / (time.process_time() - start)
    missing = corpus(args.split).missing
    print(
        f"{rate:.0f} lines per CPU second; sources not installed: {', '.join(missing) or 'none'}",
        file=sys.stderr,
    )
    if args.sheet:
        from ocria.train.sheet import contact_sheet

        contact_sheet(samples).save(args.sheet)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
