"""Small random networks of the hybrid architecture, and passes over random tokens."""

import copy
from collections.abc import Callable, Iterable

import torch
from checkpoint_made import CONFIG, VOCAB, logits

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35


def random_network(rng: torch.Generator, **text) -> Qwen35:
    """Plain, in fp32: grouped queries, and more value heads than key heads. Some columns of the norms are large, as
    trained ones are. text: changes to the configuration of the decoder."""
    config = copy.deepcopy(CONFIG)
    config["text_config"].update(text)
    network = Qwen35(ModelConfig.from_dict(config))
    for name, p in network.named_parameters():
        p.requires_grad_(False)
        spread = 1.0 if "embed_tokens" in name else 1.6 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.3
        p.copy_(torch.randn(p.shape, generator=rng) * spread)
        if name.endswith("A_log"):
            p.abs_()
        elif name.endswith("layernorm.weight"):
            p[torch.randperm(len(p), generator=rng)[:4]] = 12.0
        elif name.endswith("linear_attn.norm.weight"):
            p.add_(1)
    return network.eval()


def random_prompts(rng: torch.Generator, lengths: Iterable[int] = (33, 40)) -> list[torch.Tensor]:
    return [torch.randint(VOCAB, (length,), generator=rng) for length in lengths]


def passes(network: Qwen35, prompts: list[torch.Tensor]) -> Callable[[], None]:
    """What makes a pass over each prompt."""

    def run() -> None:
        for ids in prompts:
            logits(network, ids)

    return run


def outputs(network: Qwen35, prompts: list[torch.Tensor]) -> torch.Tensor:
    """The logits of all prompts, one below the other."""
    return torch.cat([logits(network, ids) for ids in prompts])


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The root of the squared error over that of the squares."""
    return ((found - wanted).norm() / wanted.norm()).item()
