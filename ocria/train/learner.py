"""The network in training: one gray channel in front, a CTC head beside, both losses."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import ModelConfig
from ocria.model.line import HEIGHT
from ocria.model.network import Qwen35
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.ops.upload import send
from ocria.train import vocabulary as V


class GrayPatchEmbed(nn.Module):
    """The patch embedding of a gray still image: six equal slices of the checkpoint's summed into one `[D, P * P]`."""

    def __init__(self, hidden: int, patch: int):
        super().__init__()
        self.proj = nn.Linear(patch * patch, hidden)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.proj(patches)


class Learner(nn.Module):
    """ocria-nano with the parts that exist only in training."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.network = Qwen35(config)
        vision = config.vision
        self.network.model.visual.patch_embed = GrayPatchEmbed(vision.hidden_size, vision.patch_size)
        self.ctc = nn.Linear(config.text.hidden_size, V.CTC_FRAMES * V.CTC_CLASSES)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Random start: fan-in scaled matrices, silent residual branches, slow decay in the Gated DeltaNets."""
        for name, p in self.named_parameters():
            if p.ndim >= 2:
                fan_in = p[0].numel()
                p.normal_(std=0.02 if "embed" in name and "patch" not in name else fan_in**-0.5)
                if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "attn.proj.weight",
                                  "mlp.linear_fc2.weight")):
                    p.mul_(0.2)
            elif name.endswith(".bias") and ".norm" not in name:
                p.zero_()
        for layer in self.network.model.language_model.layers:
            if hasattr(layer, "linear_attn"):
                mixer = layer.linear_attn
                mixer.A_log.uniform_(1, 16).log_()
                dt = torch.empty_like(mixer.dt_bias).uniform_(math.log(1e-3), math.log(0.1)).exp()
                mixer.dt_bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # inverse softplus

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Line images uint8 `[B, HEIGHT, W]` -> image tokens `[B, W / HEIGHT, D]`."""
        patches, grid = line_patches(images, self.config.vision.patch_size)
        # Frames of one image attend like images of one size, and their positions are made at once.
        batch = images.shape[0]
        features = self.network.encode_image(patches, [(batch, *grid[1:])])
        return features.view(batch, -1, self.config.text.hidden_size)

    def ctc_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Image tokens `[B, N, D]` -> fp32 logits `[B, N * CTC_FRAMES, classes]`."""
        return self.ctc(features).view(features.shape[0], -1, V.CTC_CLASSES).float()

    def ctc_loss(self, features: torch.Tensor, texts: list[str]) -> torch.Tensor:
        """Nats per character."""
        log_probs = self.ctc_logits(features).log_softmax(-1).transpose(0, 1)
        labels = [V.ctc_labels(text) for text in texts]
        lengths = torch.tensor([len(label) for label in labels])
        frames = torch.full((len(texts),), log_probs.shape[0])
        targets = send(torch.tensor([x for label in labels for x in label]), log_probs.device)
        loss = F.ctc_loss(log_probs, targets, frames, lengths, V.CTC_BLANK, reduction="sum", zero_infinity=True)
        return loss / lengths.sum()

    def decoder_loss(self, features: torch.Tensor, texts: list[str], noise: float, generator) -> torch.Tensor:
        """Cross-entropy in nats per token.

        A share `noise` of the input bytes is replaced, so that the decoder looks at the image instead of
        trusting what it wrote.
        """
        codes = [list(text.encode()) for text in texts]
        longest = max(map(len, codes)) + 1
        target = torch.full((len(codes), longest), -100)
        for row, code in enumerate(codes):
            target[row, : len(code) + 1] = torch.tensor([*code, V.IM_END])
        given = target[:, :-1].clamp(min=0)
        replace = torch.rand(given.shape, generator=generator) < noise
        given = torch.where(replace, torch.randint(0, 256, given.shape, generator=generator), given)
        given, target = send(given, features.device), send(target, features.device)
        hidden = self.decode(features, given)
        start = features.shape[1] + 1  # the row of vision_end predicts the first byte
        logits = self.network.logits(hidden[:, start:]).float()
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)

    def decode(self, features: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Teacher-forced pass: features `[B, N, D]`, given bytes `[B, T]` -> hidden `[B, N + 2 + T, D]`."""
        batch, tokens, _ = features.shape
        device = features.device
        start = self.network.embed(torch.full((batch, 1), V.VISION_START, device=device))
        end = self.network.embed(torch.full((batch, 1), V.VISION_END, device=device))
        hidden = torch.cat([start, features.to(start.dtype), end, self.network.embed(given)], dim=1)
        text = self.config.text
        positions = send(line_positions(tokens, given.shape[1] + 1), device)
        cos, sin = text_rope(positions, text.rotary_dim, text.rope_theta, text.mrope_section)
        return self.network.decoder(hidden, Window.whole(cos[None], sin[None], batch), None)


def line_positions(tokens: int, after: int) -> torch.Tensor:
    """3-D positions `[3, 1 + tokens + after]` of vision_start, one row of image tokens, and what follows."""
    positions = torch.zeros(3, 1 + tokens + after, dtype=torch.long)
    positions[:, 1 : 1 + tokens] = 1
    positions[2, 1 : 1 + tokens] += torch.arange(tokens)
    positions[:, 1 + tokens :] = 1 + tokens + torch.arange(after)
    return positions


def line_patches(images: torch.Tensor, patch: int) -> tuple[torch.Tensor, tuple[int, int, int]]:
    """uint8 `[B, HEIGHT, W]` -> gray patches fp32 `[B * rows * columns, patch^2]` in -1..1, in merge-block order, and
    the grid of one image."""
    batch, height, width = images.shape
    rows, columns = height // patch, width // patch
    x = images.float() / 127.5 - 1
    x = x.view(batch, rows // 2, 2, patch, columns // 2, 2, patch)
    x = x.permute(0, 1, 4, 2, 5, 3, 6).reshape(-1, patch * patch)
    assert height == HEIGHT
    return x, (1, rows, columns)
