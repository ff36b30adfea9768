"""Fresh looks of lines that were trained on before: cheap on a GPU, where rendering anew is not."""

import torch
import torch.nn.functional as F


def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """uint8 `[B, H, W]` -> uint8 of the same shape and device, each line changed in its own way.

    Size (narrower, lower or higher by 5 %), place (two pixels), slant, thickness of strokes, blur, contrast, noise.
    `generator`: on the images' device.
    """
    ink = 1 - images[:, None].float() / 255  # paper is 0: what comes in from outside is paper
    ink = _strokes(_moved(ink, generator), generator)
    share = _drawn(ink, 0.0, 0.6, generator) * _often(ink, 0.4, generator)
    ink = torch.lerp(ink, F.avg_pool2d(ink, 3, 1, 1), share)
    ink = ink * _drawn(ink, 0.75, 1.0, generator)
    noise = torch.empty_like(ink).normal_(generator=generator)
    ink = ink + noise * _drawn(ink, 0.0, 0.06, generator) * _often(ink, 0.4, generator)
    return ((1 - ink).clamp_(0, 1) * 255).round_().to(torch.uint8)[:, 0]


def _moved(ink: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Scaled, shifted and slanted around the middle."""
    batch, _, height, width = ink.shape
    matrix = torch.zeros(batch, 2, 3, device=ink.device)
    matrix[:, 0, 0] = _drawn(ink, 1.0, 1.05, generator).flatten()
    matrix[:, 1, 1] = _drawn(ink, 0.95, 1.06, generator).flatten()
    # In units of half the image: a slant of 0.08 px a px of height.
    matrix[:, 0, 1] = _drawn(ink, -0.08, 0.08, generator).flatten() * height / width
    matrix[:, 0, 2] = _drawn(ink, -2, 2, generator).flatten() * 2 / width
    matrix[:, 1, 2] = _drawn(ink, -2, 2, generator).flatten() * 2 / height
    # The left end stays, and nothing grows in width: the last letter may stand at the right end.
    matrix[:, 0, 2] += matrix[:, 0, 0] - 1
    return F.grid_sample(ink, F.affine_grid(matrix, ink.shape, align_corners=False), align_corners=False)


def _strokes(ink: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Thicker or thinner by a part of a pixel."""
    amount = _drawn(ink, -0.35, 0.45, generator) * _often(ink, 0.5, generator)
    thick, thin = F.max_pool2d(ink, 3, 1, 1), -F.max_pool2d(-ink, 3, 1, 1)
    return torch.where(amount > 0, torch.lerp(ink, thick, amount.clamp(min=0)), torch.lerp(ink, thin, -amount))


def _drawn(ink: torch.Tensor, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """One number for each line, `[B, 1, 1, 1]`."""
    return torch.empty(len(ink), 1, 1, 1, device=ink.device).uniform_(low, high, generator=generator)


def _often(ink: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    return (_drawn(ink, 0, 1, generator) < share).float()
