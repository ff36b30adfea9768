"""From an ink mask to the grey crop: which degradations a line gets, and how strong.

A profile is one way in which documents reach us: born-digital, bilevel scan, grey scan, thermal print,
magazine. Strengths are bounded by the x-height, so that a person still reads the line.
"""

import numpy as np

from ocria.train import degrade as d

PROFILES = ("clean", "bilevel", "grey", "thermal", "magazine")
_WEIGHTS = {
    "receipt": (0.14, 0.16, 0.20, 0.40, 0.10),
    "rule": (0.14, 0.16, 0.20, 0.40, 0.10),
    "code": (0.45, 0.27, 0.2, 0.03, 0.05),
    "book": (0.18, 0.50, 0.22, 0.0, 0.10),
    "play": (0.18, 0.50, 0.22, 0.0, 0.10),
}
_OTHER = (0.29, 0.37, 0.20, 0.03, 0.11)

# From the darkest to the lightest pixel: fainter print is read from context rather than seen.
_LEAST_CONTRAST = 0.35


def draw_profile(rng: d.Rng, kind: str) -> str:
    return PROFILES[int(rng.choice(5, p=_WEIGHTS.get(kind, _OTHER)))]


def scan(mask: np.ndarray, profile: str, rng: d.Rng, x_height: float) -> np.ndarray:
    """Grey uint8 [H, W] of an ink mask float32 [H, W] in 0..1 after the profile's degradations."""
    grey = {"clean": _clean, "bilevel": _bilevel, "grey": _grey, "thermal": _thermal, "magazine": _magazine}[
        profile
    ](mask, rng, x_height)
    dark, light = float(grey.min()), float(grey.max())
    if light - dark < _LEAST_CONTRAST:
        grey = light - (light - grey) * (_LEAST_CONTRAST / max(light - dark, 1e-3))
    if rng.random() < 0.015:
        grey = 1 - grey
    image = (np.clip(grey, 0, 1) * 255 + 0.5).astype(np.uint8)
    share = {"clean": 0.08, "bilevel": 0.06, "grey": 0.4, "thermal": 0.6, "magazine": 0.7}[profile]
    return d.jpeg(image, int(rng.integers(30, 93))) if rng.random() < share else image


def _clean(mask: np.ndarray, rng: d.Rng, x_height: float) -> np.ndarray:
    """Born-digital: antialiased or bilevel, black or coloured text on white or a tint."""
    if rng.random() < 0.2:
        mask = (mask > rng.uniform(0.35, 0.6) * d.strength(mask)).astype(np.float32)
    elif rng.random() < 0.2:
        mask = d.blur(mask, rng.uniform(0.2, 0.05 * x_height + 0.2))
    ink = rng.uniform(0, 0.45) if rng.random() < 0.3 else 0.0
    paper = rng.uniform(0.75, 1.0) if rng.random() < 0.2 else 1.0
    return paper + (ink - paper) * mask


def _bilevel(mask: np.ndarray, rng: d.Rng, x_height: float) -> np.ndarray:
    """A scan thresholded to black and white."""
    hard = rng.random() ** 1.5
    if rng.random() < 0.35:
        mask = d.spread(mask, rng.uniform(-0.5, 0.9) * min(1.0, x_height / 16))
    mask = d.blur(mask, rng.uniform(0.02, 0.04 + 0.055 * hard) * x_height)
    level = rng.uniform(0.55 - 0.25 * hard, 0.6 + 0.25 * hard)
    ragged = rng.uniform(0.01, 0.04 + 0.11 * hard)
    uneven = rng.uniform(0, 0.22) * hard if rng.random() < 0.5 else 0.0
    gaps = rng.uniform(0.03, 0.28) * min(1.0, x_height / 14) if rng.random() < 0.5 else 0.0
    out = d.bilevel(mask, rng, level, ragged, uneven, gaps, rng.uniform(0.1, 0.35) * x_height)
    if rng.random() < 0.3:
        out = d.specks(
            out,
            rng,
            int(rng.integers(1, 2 + int(out.size / 2500))),
            float(rng.random() < 0.75),
            max(2, int(x_height / 7)),
        )
    if rng.random() < 0.08:
        out = d.salt(out, rng, rng.uniform(0.0005, 0.012))
    if rng.random() < 0.15:  # scanned bilevel, shown scaled
        out = d.resample(out, rng, rng.uniform(1.1, max(1.2, min(2.0, x_height / 11))))
    return 1 - out


def _grey(mask: np.ndarray, rng: d.Rng, x_height: float) -> np.ndarray:
    """A grey scan: blur, noise, uneven light, paper, the back side showing through."""
    hard = rng.random() ** 1.3
    if rng.random() < 0.3:
        mask = d.spread(mask, rng.uniform(-0.4, 0.8) * min(1.0, x_height / 16))
    ghost = d.blur(mask[:, ::-1], 0.12 * x_height) * rng.uniform(0.03, 0.22) if rng.random() < 0.2 else 0.0
    mask = d.blur(mask, rng.uniform(0.02, 0.05 + 0.09 * hard) * x_height)
    if rng.random() < 0.08:
        mask = d.smear(mask, rng.uniform(1.2, max(1.3, 0.16 * x_height)), bool(rng.random() < 0.5))
    if rng.random() < 0.4:
        mask = mask * (
            1 - rng.uniform(0.1, 0.55) * np.clip(0.4 + d.field(rng, mask.shape, 1.2 * x_height), 0, 1)
        )
    if rng.random() < 0.25 and x_height > 13:
        mask = d.resample(mask, rng, rng.uniform(1.1, min(2.6, x_height / 8)))
    paper = rng.uniform(0.7, 1.0)
    ink = rng.uniform(0.0, 0.35) if rng.random() < 0.75 else paper - rng.uniform(0.25, 0.45)
    ground = (
        paper - np.roll(ghost, int(rng.integers(-9, 9)), axis=0) * (paper - ink)
        if not np.isscalar(ghost)
        else paper
    )
    if rng.random() < 0.4:
        ground = ground + rng.uniform(0.02, 0.16) * d.field(rng, mask.shape, rng.uniform(3, 14) * x_height)
    if rng.random() < 0.3:
        ground = ground + rng.uniform(0.01, 0.04) * d.field(rng, mask.shape, rng.uniform(1.5, 6))
    out = ground + (ink - ground) * mask
    out = out + rng.uniform(0.0, 0.02 + 0.07 * hard) * (paper - ink) * d.noise(rng, mask.shape)
    if rng.random() < 0.15:
        out = d.specks(out, rng, int(rng.integers(1, 12)), ink, max(2, int(x_height / 7)))
    return out


def _thermal(mask: np.ndarray, rng: d.Rng, x_height: float) -> np.ndarray:
    """Receipt print: dots, streaks, faint ink, often thresholded by the scanner's software."""
    roll = rng.random()
    if roll < 0.3 and x_height > 11:
        mask = d.pixels(mask, rng, x_height / rng.uniform(5.5, 10), bool(rng.random() < 0.4))
    elif roll < 0.65:
        mask = d.dots(mask, rng.uniform(2.2, max(2.6, x_height / 4.5)), rng)
    if rng.random() < 0.6:
        mask = d.streaks(mask, rng, rng.uniform(0.1, 0.55))
    if rng.random() < 0.35:  # points of the head that do not heat, a ribbon that is worn: strokes in pieces
        holes = np.clip(d.field(rng, mask.shape, rng.uniform(0.1, 0.4) * x_height) - rng.uniform(0, 0.5), 0, 1)
        mask = mask * (1 - rng.uniform(0.4, 1.2) * holes).clip(0, 1)
    mask = d.blur(mask, rng.uniform(0.03, 0.1) * x_height)
    if rng.random() < 0.3:
        return 1 - d.bilevel(mask, rng, rng.uniform(0.35, 0.75), rng.uniform(0.02, 0.1), rng.uniform(0, 0.2))
    paper, contrast = rng.uniform(0.8, 1.0), rng.uniform(0.3, 0.95)
    fade = 1 - rng.uniform(0, 0.5) * np.clip(d.field(rng, mask.shape, 4 * x_height), 0, 1)
    out = paper - contrast * mask * fade
    return out + rng.uniform(0.0, 0.05) * contrast * d.noise(rng, mask.shape)


def _magazine(mask: np.ndarray, rng: d.Rng, x_height: float) -> np.ndarray:
    """Halftone paper or a photographed page: soft, tinted, sharpened, often a tinted box."""
    mask = d.blur(mask, rng.uniform(0.03, 0.09) * x_height)
    if rng.random() < 0.5:
        mask = np.clip(mask + rng.uniform(0.3, 1.2) * (mask - d.blur(mask, 0.15 * x_height)), -0.3, 1.2)
    paper = rng.uniform(0.55, 1.0)
    ink = rng.uniform(0.0, max(0.02, paper - 0.4))
    roll = rng.random()
    if roll < 0.3:
        paper = paper + rng.uniform(0.02, 0.07) * d.noise(rng, mask.shape)
    elif roll < 0.5 and paper < 0.9:
        paper = paper + rng.uniform(0.03, 0.16) * d.screen(
            mask.shape, rng.uniform(2.2, 5.0), rng.uniform(0, 1.5)
        )
    out = paper + (ink - paper) * mask
    if rng.random() < 0.4:
        out = out + rng.uniform(0.02, 0.15) * d.field(rng, mask.shape, rng.uniform(2, 12) * x_height)
    return out + rng.uniform(0.0, 0.03) * d.noise(rng, mask.shape)
