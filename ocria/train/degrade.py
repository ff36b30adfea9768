"""Degradations of a rasterised line: geometry, ink, paper, scanner. Images are float32 [H, W] unless said.

Ink masks run from 0 (paper) to 1 (full ink). The random generator is numpy's; every function draws all
it needs from it, so that equal generators give equal images.
"""

import io
from functools import lru_cache

import numpy as np
from PIL import Image, ImageFilter

Rng = np.random.Generator


@lru_cache(maxsize=1)
def _noise_pool() -> np.ndarray:
    """Standard normal noise, drawn once: drawing it anew would cost more than all the rest of a line."""
    return np.random.default_rng(20).standard_normal(1 << 21, dtype=np.float32)


def noise(rng: Rng, shape: tuple[int, int]) -> np.ndarray:
    """Unit normal noise of `shape`, a slice of a fixed pool at a random offset."""
    pool, n = _noise_pool(), shape[0] * shape[1]
    if n > pool.size:
        return rng.standard_normal(shape, dtype=np.float32)
    start = int(rng.integers(pool.size - n + 1))
    return pool[start : start + n].reshape(shape)


def field(rng: Rng, shape: tuple[int, int], cell: float) -> np.ndarray:
    """Smooth noise in about [-1, 1] that changes over `cell` pixels."""
    h, w = shape
    small = rng.uniform(-1, 1, (max(2, round(h / cell) + 1), max(2, round(w / cell) + 1))).astype(np.float32)
    return np.asarray(Image.fromarray(small).resize((w, h), Image.Resampling.BICUBIC))


def blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur (8-bit inside: finer steps drown in the noise that follows)."""
    if sigma < 0.2:
        return image
    pil = Image.fromarray((np.clip(image, 0, 1) * 255).astype(np.uint8))
    return np.asarray(pil.filter(ImageFilter.GaussianBlur(sigma)), dtype=np.float32) / 255


def bend(image: np.ndarray, rng: Rng, slope: float, sag: float) -> np.ndarray:
    """Skew by `slope` (rows per column) and a slight arc of `sag` rows; whole rows, as scans show steps."""
    h, w = image.shape
    x = np.linspace(-0.5, 0.5, w, dtype=np.float32)
    shift = x * w * slope + sag * np.sin((x + rng.uniform(-0.5, 0.5)) * np.pi * rng.uniform(0.8, 2.0))
    rows = np.arange(h)[:, None] - np.rint(shift).astype(np.int64)[None, :]
    return np.take_along_axis(image, np.clip(rows, 0, h - 1), axis=0)


def spread(mask: np.ndarray, amount: float) -> np.ndarray:
    """Ink grown (amount > 0) or eaten (< 0) by up to one pixel on every side."""
    pil = Image.fromarray((mask * 255).astype(np.uint8))
    moved = pil.filter(ImageFilter.MaxFilter(3) if amount > 0 else ImageFilter.MinFilter(3))
    share = min(1.0, abs(amount))
    return mask * (1 - share) + np.asarray(moved, dtype=np.float32) / 255 * share


def smear(image: np.ndarray, length: float, upright: bool) -> np.ndarray:
    """Motion along the line, or across it, over about `length` pixels."""
    h, w = image.shape
    small = (w, max(1, round(h / length))) if upright else (max(1, round(w / length)), h)
    pil = Image.fromarray(image).resize(small, Image.Resampling.BILINEAR)
    return np.asarray(pil.resize((w, h), Image.Resampling.BICUBIC))


def screen(shape: tuple[int, int], pitch: float, angle: float) -> np.ndarray:
    """The dots of a halftone ground in [-1, 1], `pitch` pixels apart, turned by `angle` radians."""
    h, w = shape
    y, x = np.arange(h, dtype=np.float32)[:, None], np.arange(w, dtype=np.float32)[None, :]
    k = 2 * np.pi / pitch
    c, s = k * np.cos(angle), k * np.sin(angle)
    # cos(cx + sy) + cos(cy - sx) by the sums' rules: only rows and columns need cosines
    return 0.5 * (
        np.cos(c * x) * np.cos(s * y)
        - np.sin(c * x) * np.sin(s * y)
        + np.cos(c * y) * np.cos(s * x)
        + np.sin(c * y) * np.sin(s * x)
    ).astype(np.float32)


def strength(mask: np.ndarray) -> float:
    """The value that the strokes of a blurred mask reach: its mean weighted by itself."""
    total = float(mask.sum())
    return float((mask * mask).sum()) / total if total > 0 else 1.0


def bilevel(
    mask: np.ndarray,
    rng: Rng,
    level: float,
    ragged: float,
    uneven: float,
    gaps: float = 0.0,
    gap_size: float = 3.0,
) -> np.ndarray:
    """The mask thresholded at `level` of its strokes' value; edges `ragged`, level `uneven` over the line.

    `gaps` is noise of the strokes' scale (`gap_size` pixels), which breaks hairlines here and there.
    """
    cut = level * strength(mask)
    grain = mask + ragged * noise(rng, mask.shape)
    if gaps:
        grain = grain + gaps * field(rng, mask.shape, max(2.0, gap_size))
    if uneven:
        grain = grain + uneven * field(rng, mask.shape, 2.5 * mask.shape[0])
    return (grain > cut).astype(np.float32)


def dots(mask: np.ndarray, pitch: float, rng: Rng) -> np.ndarray:
    """The mask as a print head's dots of `pitch` pixels, a little blurred."""
    h, w = mask.shape
    y, x = np.arange(h, dtype=np.float32)[:, None], np.arange(w, dtype=np.float32)[None, :]
    phase = rng.uniform(0, pitch, 2)
    grid = (
        np.cos((y - phase[0]) * (2 * np.pi / pitch)) + np.cos((x - phase[1]) * (2 * np.pi / pitch))
    ) * 0.25 + 0.5
    return np.clip(mask * (0.35 + 1.1 * grid), 0, 1)


def pixels(mask: np.ndarray, rng: Rng, cell: float, round_dots: bool) -> np.ndarray:
    """The mask in square cells of `cell` pixels, each black or white: the letters of a printer's own font."""
    h, w = mask.shape
    pil = Image.fromarray((mask * 255).astype(np.uint8))
    coarse = pil.resize((max(1, round(w / cell)), max(1, round(h / cell))), Image.Resampling.BOX)
    values = np.asarray(coarse, dtype=np.float32) / 255
    coarse = Image.fromarray((values > rng.uniform(0.4, 0.6) * strength(values)).astype(np.float32))
    out = np.asarray(coarse.resize((w, h), Image.Resampling.NEAREST))
    if round_dots:
        y, x = (
            np.arange(n, dtype=np.float32) % (n / m) / (n / m) - 0.5
            for n, m in zip((h, w), coarse.size[::-1], strict=True)
        )
        out = out * np.clip(1.6 - 2.6 * (y[:, None] ** 2 + x[None, :] ** 2) ** 0.5, 0, 1)
    return out


def streaks(mask: np.ndarray, rng: Rng, depth: float) -> np.ndarray:
    """Ink weakened along rows or columns, as a worn thermal head or ribbon does."""
    h, w = mask.shape
    kind = rng.random()
    if kind < 0.2:  # a few dead points of the head
        line = (rng.random(h) < 0.08).astype(np.float32)[:, None]
    elif kind < 0.5:
        line = np.clip(rng.standard_normal(h).astype(np.float32) * 0.5 + 0.4, 0, 1)[:, None]
    else:
        line = field(rng, (2, w), max(3.0, h * rng.uniform(0.2, 2.5)))[:1]
        line = np.clip(0.5 + line, 0, 1)
    return mask * (1 - depth * line)


def specks(image: np.ndarray, rng: Rng, count: int, ink: float, largest: int) -> np.ndarray:
    """`count` dots of 1 to `largest` pixels set to `ink`, anywhere."""
    image = image.copy()
    h, w = image.shape
    for _ in range(count):
        y, x = int(rng.integers(h)), int(rng.integers(w))
        size = rng.integers(1, largest + 1, 2)
        image[y : y + size[0], x : x + size[1]] = ink
    return image


def salt(image: np.ndarray, rng: Rng, share: float) -> np.ndarray:
    """Single pixels turned: `share` of all."""
    image = image.copy()
    n = int(image.size * share)
    image.reshape(-1)[rng.integers(0, image.size, n)] = rng.integers(0, 2, n)
    return image


def resample(image: np.ndarray, rng: Rng, factor: float) -> np.ndarray:
    """Down by `factor` and up again, by one of PIL's filters."""
    h, w = image.shape
    filters = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.BOX)
    pil = Image.fromarray(image)
    small = pil.resize((max(1, round(w / factor)), max(1, round(h / factor))), filters[rng.integers(3)])
    return np.asarray(small.resize((w, h), filters[rng.integers(2)]))


def jpeg(gray: np.ndarray, quality: int) -> np.ndarray:
    """uint8 [H, W] through JPEG."""
    buffer = io.BytesIO()
    Image.fromarray(gray).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer))
