"""Muon: momentum whose matrix updates are orthogonalised (Jordan et al. 2024), RMS-matched to AdamW's step size
(Liu et al., arXiv 2502.16982). Matrices of one shape are orthogonalised together, which is what counts on a CPU.
"""

from collections import defaultdict

import torch

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def fast_bf16(device: torch.device) -> bool:
    """Whether products in bf16 are worth it; on CPUs without them they take ten times as long as in fp32."""
    return device.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()


def orthogonalise(stack: torch.Tensor, steps: int = 4) -> torch.Tensor:
    """Approximate the nearest semi-orthogonal matrices. `[S, M, N]` -> `[S, M, N]`, singular values near 1; in bf16
    where that is fast, else in fp32."""
    x = stack.bfloat16() if fast_bf16(stack.device) else stack.float()
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if wide else x


class Muon(torch.optim.Optimizer):
    """For 2-D weights only. `lr` is in AdamW units: an update has RMS 0.2 * lr, whatever the shape."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.01, steps: int = 4):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "steps": steps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            shapes = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[p.shape].append(p)
            for shape, params in shapes.items():
                updates = []
                for p in params:
                    buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    buffer.mul_(group["momentum"]).add_(p.grad)
                    updates.append(p.grad + group["momentum"] * buffer)
                stacked = orthogonalise(torch.stack(updates), group["steps"])
                scale = 0.2 * max(shape) ** 0.5 * group["lr"]
                for p, update in zip(params, stacked, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update.to(p.dtype), alpha=-scale)
