"""A fresh seed for every test run."""

import numpy as np
import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)
