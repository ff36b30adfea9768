"""A small byte-level tokenizer in a folder, as checkpoints of this architecture have it."""

import json

import pytest
import tokenizers

from ocria.model.tokens import Tokenizer

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
]
ADDED = ["<think>", "</think>"]
TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind: 12,345 foxes did so in 1987.",
    "Über naïve Café-Gäste in Zürich, façade, œuvre, “quoted” — and … 文档 日本語 한국어 🙂 €5",
    "<table><tr><td>cell</td></tr></table> user assistant system",
]
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "clean_up_tokenization_spaces": False,
    "add_bos_token": False,
}


def build_tokenizer() -> tokenizers.Tokenizer:
    """Byte-level BPE with a few hundred merges, NFC and single digits, like the published one."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    split = tokenizers.Regex(r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(split, behavior="isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(ADDED)
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer_json() -> str:
    return build_tokenizer().to_str()


@pytest.fixture
def tokenizer_folder(tmp_path, tokenizer_json):
    """Call it with extra files (name -> text or object) to get a folder."""

    def make(**files):
        files = {"tokenizer.json": tokenizer_json, "tokenizer_config.json": TOKENIZER_CONFIG} | files
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return make


@pytest.fixture
def tokenizer(tokenizer_folder) -> Tokenizer:
    return Tokenizer(tokenizer_folder())
