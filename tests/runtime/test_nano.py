"""The embedded model: a page of lines reads the same alone, in batches, and by transformers."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from ocria.document.reader import NANO
from ocria.model.image import preprocess
from ocria.model.line import line_image
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits, Request

SENTENCE = "the quick brown fox, jumps over 13 lazy dogs (in Zürich) and pays $4.20 for No. 7 at www.example.com"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def nano():
    from ocria.model.checkpoint import load_model

    return load_model(NANO, dtype=torch.float32)


@pytest.fixture
def lines(rng):
    """(text, line image) of 40 clean lines of 1 to 12 words."""
    font = ImageFont.load_default(size=34)
    made = []
    for count in rng.integers(1, 13, 40).tolist():
        text = " ".join(rng.choice(WORDS, count))
        _, top, right, bottom = font.getbbox(text)
        image = Image.new("L", (right + 20, bottom - top + 12), 255)
        ImageDraw.Draw(image).text((10, 6 - top), text, font=font, fill=0)
        made.append((text, line_image(np.asarray(image))))
    return made


def requests(nano, lines):
    prompt = nano.tokenizer.render(nano.profile.messages(), **nano.profile.template_kwargs)
    return [Request(i, prompt, [image]) for i, (_, image) in enumerate(lines)]


def test_batch_sizes_agree(nano, lines):
    """Token for token in fp32, for a page at batch 1 and at batch 32."""
    page = requests(nano, lines)
    one = Engine(nano, EngineOptions(max_batch=1)).run(page)
    many = Engine(nano, EngineOptions(max_batch=32)).run(page)
    assert [r.tokens for r in many] == [r.tokens for r in one]
    assert [r.status for r in many] == [r.status for r in one]


def test_it_reads(nano, lines):
    """Clean lines in a plain font: most words come out exactly. How well it reads is for the bench to say."""
    results = Engine(nano).run(requests(nano, lines))
    assert all(result.status == "ok" for result in results)
    hits = total = 0
    for (text, _), result in zip(lines, results, strict=True):
        hits += sum(word in result.text.split() for word in text.split())
        total += len(text.split())
    assert hits > 0.8 * total


def test_equals_transformers(nano, lines):
    transformers = pytest.importorskip("transformers")
    model = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(NANO, dtype=torch.float32).eval()
    few = requests(nano, lines)[:6]
    limited = [Request(r.id, r.prompt, r.images, Limits(max_tokens=40)) for r in few]
    for request, result in zip(limited, Engine(nano).run(limited), strict=True):
        pixels, grid = preprocess(request.images[0], nano.image)
        ids, image_token = nano.tokenizer.encode(request.prompt), nano.config.image_token_id
        place = ids.index(image_token)
        ids[place : place + 1] = [image_token] * (grid[1] * grid[2] // nano.image.merge_size**2)
        tensor = torch.tensor([ids])
        made = model.generate(
            input_ids=tensor,
            attention_mask=torch.ones_like(tensor),
            mm_token_type_ids=(tensor == image_token).int(),
            pixel_values=pixels,
            image_grid_thw=torch.tensor([grid]),
            do_sample=False,
            max_new_tokens=40,
        )[0, len(ids) :].tolist()
        assert list(result.tokens) == made[: result.tokens_out]
        assert (len(made) > result.tokens_out) == (result.finish_reason == "stop")
