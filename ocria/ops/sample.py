"""The next token from logits: the likeliest one, or a draw from the filtered distribution.

Draws are made by the Gumbel-max trick: of all tokens that top-k and top-p keep, the one whose tempered logit plus
noise is largest. The noise of a token depends on seed, position and token alone (`ocria.ops.philox`), and what
decides a draw is computed exactly or in integers (`ocria.ops.fixed`), so that a request draws the same alone and in a
batch, by the torch form and by the kernel.
"""

import torch

from ocria.ops.fixed import weight
from ocria.ops.philox import gumbel_noise
from ocria.ops.register import register

Choice = tuple[torch.Tensor, torch.Tensor]


def _greedy_torch_form(logits: torch.Tensor) -> Choice:
    logits = logits.float()
    token = logits.argmax(dim=-1)
    # A NaN or +inf makes all of the softmax NaN, -inf shows in the minimum.
    probability = _softmax_of(token, logits) + 0.0 * logits.amin(dim=-1)
    return token.masked_fill_(probability.isnan(), 0), probability


def _torch_form(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
) -> Choice:
    logits = logits.float()
    finite = logits.isfinite().all(dim=-1)
    x = logits.masked_fill(~finite[:, None], 0.0)
    sampled = temperature[:, None] > 0
    y = x / torch.where(sampled, temperature[:, None], 1.0)
    keep = y >= kept_from(y, top_k, top_p)[:, None]
    noisy = y + gumbel_noise(seed, position, y.shape[1])
    token = torch.where(sampled, noisy.masked_fill(~keep, -torch.inf), y).argmax(dim=-1).masked_fill(~finite, 0)
    return token, _softmax_of(token, x).masked_fill(~finite, torch.nan)


def _softmax_of(token: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return logits.softmax(dim=-1).gather(-1, token[..., None])[..., 0]


def kept_from(y: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The lowest tempered logit fp32 `[R]` that top-k, then top-p, keep of `y` fp32 `[R, V]`.

    Kept are the tokens with fewer than top_k above them and, of the mass of those, less than top_p above them; of
    equal ones all. So does transformers, except that its top-p keeps some of equal ones, by the order of its sort.
    """
    size = y.shape[1]
    down = y.sort(dim=-1, descending=True).values
    k = torch.where(top_k > 0, top_k, size).clamp(max=size)
    kth = down.gather(1, k[:, None] - 1)
    mass = weight(down[:, :1] - down)
    total = (mass * (down >= kth)).sum(dim=-1)
    above = mass.cumsum(dim=-1) - mass
    inside = above.double() < (top_p.double() * total.double())[:, None]
    last = inside.sum(dim=-1, keepdim=True) - 1
    pth = down.gather(1, last.clamp(min=0))
    return torch.where(top_p[:, None] < 1, torch.maximum(kth, pth), kth)[:, 0]


def _greedy_launch(logits: torch.Tensor) -> Choice:
    from ocria.ops.kernels.sample import launch_greedy

    return launch_greedy(logits)


def _launch(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
) -> Choice:
    from ocria.ops.kernels.sample import launch

    return launch(logits, temperature, top_k, top_p, seed, position)


def _fake(logits: torch.Tensor, *_: torch.Tensor) -> Choice:
    rows = logits.shape[:-1]
    return logits.new_empty(rows, dtype=torch.int64), logits.new_empty(rows, dtype=torch.float32)


sample = register("sample", torch_form=_torch_form, launch=_launch, fake=_fake)
"""`sample(logits, temperature, top_k, top_p, seed, position) -> (token, probability)`.

logits `[R, V]`, fp32 or bf16; temperature fp32 `[R]`, 0 for the likeliest token, of equal ones the lowest id; top_k
int64 `[R]`, 0 for off; top_p fp32 `[R]`, 1 for off; seed and position int64 `[R]`. Filters apply in the order
temperature, top-k, top-p and mean what they mean in transformers (see `kept_from`). Logits over temperature must stay
within fp32.

token int64 `[R]`; probability fp32 `[R]`: the softmax of the unfiltered logits, at temperature 1, of that token. Where
any logit of a row is not finite, its probability is NaN and its token 0.
"""

greedy = register("greedy", torch_form=_greedy_torch_form, launch=_greedy_launch, fake=_fake)
"""`greedy(logits) -> (token, probability)`: what `sample` returns at temperature 0, in fewer passes.

logits `[..., V]`, token and probability `[...]`.
"""
