"""A generator with a fresh seed for every test, printed where a test fails."""

import pytest
import torch


@pytest.fixture
def rng() -> torch.Generator:
    generator = torch.Generator()
    print(f"seed {generator.seed()}")
    return generator
