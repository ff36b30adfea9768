"""A small random checkpoint of the architecture with a byte-level tokenizer, made anew in every session."""

from types import SimpleNamespace

import numpy as np
import pytest
from small_model import CONFIG, IMAGE, IMAGE_PAD, VISION_END, VISION_START, byte_tokenizer, random_weights

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.model.tokens import Tokenizer
from ocria.runtime.request import Limits, Request


@pytest.fixture(scope="session")
def seed() -> int:
    value = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {value}")
    return value


@pytest.fixture
def rng() -> np.random.Generator:
    sequence = np.random.SeedSequence()
    print(f"entropy {sequence.entropy}")
    return np.random.default_rng(sequence)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return byte_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def loaded(tokenizer, seed):
    """What `load_model` returns, as far as the engine looks at it."""
    config = ModelConfig.from_dict(CONFIG)
    network = Qwen35(config).eval().requires_grad_(False)
    random_weights(network, seed)
    profile = Profile(name="small", unit="line", prompt="", dialect="text", max_output_tokens=64)
    return SimpleNamespace(network=network, tokenizer=tokenizer, config=config, profile=profile, image=IMAGE)


@pytest.fixture
def private(loaded):
    """`private(**changes)`: the same model with a network of its own, to be tampered with."""

    def make(**changes):
        network = Qwen35(loaded.config).eval().requires_grad_(False)
        network.load_state_dict(loaded.network.state_dict())
        return SimpleNamespace(**{**vars(loaded), "network": network, **changes})

    return make


@pytest.fixture
def make_request(rng):
    """`make_request(id, prompt_len=.., image=(rows, columns) in image tokens or None, max_tokens=..)`."""

    def make(name, prompt_len=None, image=None, max_tokens=None, **limits):
        words = rng.integers(0, 256, prompt_len if prompt_len is not None else rng.integers(1, 12)).tolist()
        images = []
        if image is not None:
            images = [rng.integers(0, 256, (16 * image[0], 16 * image[1]), dtype=np.uint8)]
            words = [VISION_START, IMAGE_PAD, VISION_END, *words]
        return Request(name, words, images, Limits(max_tokens=max_tokens, **limits))

    return make
