"""A generator with a fresh seed for every test, printed where a test fails, and checkpoints to tamper with."""

from pathlib import Path

import pytest
import torch
from checkpoint_made import make_checkpoint
from recipes_made import CASES, quantize

from ocria.quant.formats import write_checkpoint


@pytest.fixture
def rng() -> torch.Generator:
    generator = torch.Generator()
    print(f"seed {generator.seed()}")
    return generator


@pytest.fixture
def written(tmp_path, rng):
    """Call it with a case to get a checkpoint of its own, to be tampered with."""

    def make(case: str, **options) -> Path:
        form, quantise = CASES[case]
        source = make_checkpoint(tmp_path / "plain", rng)
        write_checkpoint(tmp_path / "out", source, quantize(source, quantise), form, **options)
        return tmp_path / "out"

    return make
