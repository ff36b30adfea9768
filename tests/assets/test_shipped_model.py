"""The shipped model: its size, its files, and that transformers reads the same lines with it."""

import difflib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import ocria
from ocria.document.lines import find_lines
from ocria.document.reader import NANO, Reader
from ocria.model.checkpoint import load_model
from ocria.model.line import line_image
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def crops() -> list[np.ndarray]:
    gray = np.asarray(Image.open(EXAMPLES / "scan.png").convert("L"))
    return [line.crop for line in find_lines(gray).lines]


@pytest.fixture(scope="module")
def loaded():
    return load_model(NANO, dtype=torch.float32)


def requests(loaded, crops) -> list[Request]:
    prompt = loaded.tokenizer.render(loaded.profile.messages())
    return [Request(number, prompt, [line_image(crop)]) for number, crop in enumerate(crops)]


def test_it_is_small_and_complete():
    files = {file.name for file in NANO.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "ocria.json", "README.md"} <= files
    assert {"ctc.safetensors", "ctc.json"} <= files
    assert sum(file.stat().st_size for file in NANO.iterdir()) <= 20e6


def test_the_text_of_the_scan_is_right():
    document = ocria.parse(EXAMPLES / "scan.png", mode="model")
    truth = " ".join((EXAMPLES / "scan.txt").read_text(encoding="utf-8").split())
    read = " ".join(document.text.split())
    assert document.pages[0].status == "ok"
    # 2 % of the characters: a small model may slip here and there, a page out of order may not pass.
    wrong = 1 - difflib.SequenceMatcher(None, truth, read, autojunk=False).ratio()
    assert wrong < 0.02, read


@pytest.mark.parametrize("batch", [1, 32])
def test_a_page_reads_the_same_whatever_the_batch(loaded, crops, batch):
    results = Engine(loaded, EngineOptions(max_batch=batch)).run(requests(loaded, crops))
    alone = [Engine(loaded, EngineOptions(max_batch=1)).run([r])[0] for r in requests(loaded, crops)[::5]]
    assert [r.text for r in results[::5]] == [r.text for r in alone]
    assert all(r.status == "ok" and 0 < r.confidence <= 1 for r in results)


def test_transformers_reads_the_same_tokens(loaded, crops):
    transformers = pytest.importorskip("transformers")
    model = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(NANO, dtype=torch.float32).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(NANO)
    tokenizer = transformers.AutoTokenizer.from_pretrained(NANO)
    assert tokenizer.decode(tokenizer("é “x”").input_ids) == "é “x”"
    ours = Engine(loaded, EngineOptions(max_batch=8)).run(requests(loaded, crops[:6]))
    image_token = model.config.image_token_id
    for crop, result in zip(crops[:6], ours, strict=True):
        pixels = processor(images=[Image.fromarray(line_image(crop)).convert("RGB")], return_tensors="pt")
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}]}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(prompt).input_ids
        at = ids.index(image_token)
        ids = [*ids[:at], *[image_token] * (pixels["pixel_values"].shape[0] // 4), *ids[at + 1 :]]
        ids = torch.tensor([ids])
        out = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=(ids == image_token).long(),
            do_sample=False, max_new_tokens=400, **pixels,
        )  # fmt: skip
        theirs = [token for token in out[0, ids.shape[1] :].tolist() if token != model.generation_config.eos_token_id]
        assert list(result.tokens) == theirs


def test_long_lines_do_not_loop(loaded):
    """A line of the full width of a page: 150 characters and more, in pieces or whole."""
    import pymupdf

    words = sorted(set((EXAMPLES / "scan.txt").read_text(encoding="utf-8").split()))
    text = " ".join(np.random.default_rng().choice([word for word in words if word.isascii()], 34, replace=False))
    page = pymupdf.open().new_page(width=1200, height=60)
    page.insert_text((20, 36), text, fontsize=14, fontname="tiro")
    pixmap = page.get_pixmap(dpi=150, colorspace=pymupdf.csGRAY)
    gray = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.width)
    crop = max(find_lines(gray).lines, key=lambda line: line.crop.shape[1]).crop
    result = Reader().read_lines([crop])[0]
    assert result.status == "ok"
    # The model may slip in some letters; a loop or a lost end would show as much more.
    assert difflib.SequenceMatcher(None, text, result.text, autojunk=False).ratio() > 0.9
    assert len(result.text) < 1.2 * len(text)
