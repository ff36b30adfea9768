"""Embeddings that a checkpoint fills."""

import torch
from torch import nn


def empty_embedding(rows: int, width: int) -> nn.Embedding:
    """An embedding without its random start, which on the meta device would import all of torch's compiler."""
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)
