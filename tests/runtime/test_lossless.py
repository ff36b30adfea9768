"""In fp32 every drafter, block length and mix of a batch gives the answers of plain decoding.

Rows of a step are summed in another order than single ones, so two logits that are equal but for rounding may change
places: such answers are counted and printed, and by a teacher-forced pass the two lie within TIE of each other.
"""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from scripted import Oracle, Scripted, chain, some_wrong
from test_network_drafts import random_drafter

from ocria.document.reader import NANO
from ocria.model.checkpoint import load_model
from ocria.model.line import line_image
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request
from ocria.runtime.teacher import Teacher
from ocria.spec.lookup import NGramLookup, TextLookup
from ocria.spec.network import NetworkDrafts
from ocria.spec.source import Drafts

TIE = 1e-4
WORDS = ["the", "a", "of", "1,024", "Table", "§", "7.5", "%", "(see)", "“quoted”", "naïve", "rate—per", "$12.90"]
WORDS += ["Wm.", "&", "Co.", "ALPHA", "beta-gamma", "l1I", "O0", "…", "fi"]
OWN = [str(folder) for folder in sorted(NANO.glob("drafter*"))]


def check_lossless(loaded, requests, plain, results):
    """Returns how many answers differ at a tie; any other difference is an error."""
    teacher, ties = Teacher(loaded), 0
    for request, a, b in zip(requests, plain, results, strict=True):
        if a.tokens == b.tokens and a.finish_reason == b.finish_reason:
            continue
        pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
        first = next((i for i, (x, y) in pairs if x != y), min(len(a.tokens), len(b.tokens)))
        for result in (a, b):
            assert float(teacher.regrets(request, result)[first]) < TIE, (request.id, first, a.text, b.text)
        ties += 1
    print(f"{ties} of {len(requests)} answers differ at a tie")
    return ties


@pytest.fixture(scope="module")
def nano():
    return load_model(NANO, dtype=torch.float32)


@pytest.fixture(scope="module")
def lines(nano):
    """Requests to read lines, clean and spoilt, with a guess for two of three of them: right, nearly, or another's."""
    sequence = np.random.SeedSequence()
    print(f"entropy {sequence.entropy}")
    rng = np.random.default_rng(sequence)
    prompt = nano.tokenizer.encode(nano.tokenizer.render(nano.profile.messages(), **nano.profile.template_kwargs))
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(1, 14)))) for _ in range(48)]
    requests = []
    for name, text in enumerate(texts):
        font = ImageFont.load_default(size=int(rng.integers(14, 40)))
        left, top, right, bottom = font.getbbox(text)
        image = Image.new("L", (int(right - left) + 24, int(bottom - top) + 14), int(rng.integers(190, 256)))
        ImageDraw.Draw(image).text((12 - left, 7 - top), text, font=font, fill=int(rng.integers(0, 90)))
        image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1.6))))
        pixels = np.asarray(image) + rng.normal(0, rng.uniform(0, 25), image.size[::-1])
        guess = [None, text, text.replace("e", "c", 2), texts[name - 1]][int(rng.integers(0, 4))]
        requests.append(Request(name, prompt, [line_image(pixels.clip(0, 255).astype(np.uint8))], guess=guess))
    return requests


@pytest.fixture(scope="module")
def read_plainly(nano, lines):
    return Engine(nano, EngineOptions(max_batch=8)).run(lines)


@pytest.mark.parametrize("rows", [None, 2, 7, 16, 64])
@pytest.mark.parametrize("draft", ["lookup", "vision", *OWN, "lookup,vision,own"])
def test_lines_are_read_as_without_drafts(nano, lines, read_plainly, rng, draft, rows):
    options = EngineOptions(
        max_batch=int(rng.integers(1, 14)), admit_group=1, overlap=bool(rng.integers(2)), prefill_rows=300,
        draft=draft, draft_rows=rows,
    )  # fmt: skip
    engine, some = Engine(nano, options), rng.permutation(len(lines))[: len(lines) // 4].tolist()
    requests = [lines[i] for i in some]
    results = engine.run(requests)
    engine.check_integrity()
    ties = check_lossless(nano, requests, [read_plainly[i] for i in some], results)
    assert ties <= 3, "as good as equal is rare"
    assert sum((r.acceptance.accepted for r in results), 0) == engine.metrics.acceptance.accepted > 0


class Loop(Scripted):
    """Drafts the anchor again and again: right where a text repeats a token, else wrong."""

    name = "loop"

    def propose(self, seen):
        tokens = seen.anchor[:, None].expand(-1, seen.rows - 1)
        return Drafts(tokens, (seen.length % seen.rows))


@pytest.mark.parametrize("rows", [2, 6, 12])
@pytest.mark.parametrize("version", [1, 2])
def test_random_models_in_long_chains(loaded, make_request, rng, version, rows):
    """Everything at once on weights that mean nothing: texts, networks, truths and nonsense, chosen slot by slot."""
    requests = []
    for i in range(16):
        image, length, limit = (1, 2) if i % 3 == 0 else None, int(rng.integers(1, 30)), int(rng.integers(1, 60))
        requests.append(make_request(i, prompt_len=length, image=image, max_tokens=limit))
    plain = Engine(loaded, EngineOptions(max_batch=3)).run(requests)
    truth = Oracle({r.id: list(r.tokens) for r in plain}, some_wrong, rng)
    network = NetworkDrafts(random_drafter(version, int(rng.integers(1 << 30))), loaded.network)
    drafter = chain(rows, TextLookup(), Loop(), truth, NGramLookup(), network)
    truth.engine = Engine(loaded, EngineOptions(max_batch=5, draft_rows=rows, admit_group=2), drafter=drafter)
    results = truth.engine.run(requests)
    truth.engine.check_integrity()
    check_lossless(loaded, requests, plain, results)
    used = truth.engine.metrics.acceptance.sources
    assert {"scripted", network.name} & set(used), used


@pytest.fixture(scope="module")
def rounded():
    return load_model(NANO, dtype=torch.bfloat16)


@pytest.fixture(scope="module")
def read_rounded(rounded, lines):
    return Engine(rounded, EngineOptions(max_batch=8, draft="none")).run(lines)


@pytest.mark.parametrize("draft", ["none", "vision", "own"])
def test_regret_in_bf16(nano, rounded, lines, read_rounded, draft):
    """Equality is not to be had: every choice is within the error of bf16 of the best one, by the same weights in fp32.
    Activations are rounded to 8 bits some twenty times on their way, 1 to 2 % of logits of up to 20, and a regret is
    the difference of two of them; a wrong row or a lost update costs several units."""
    teacher = Teacher(nano)  # the file is bf16: the same weights
    options = EngineOptions(max_batch=8, draft=draft)
    results = read_rounded if draft == "none" else Engine(rounded, options).run(lines)
    worst, firsts = 0.0, []
    for request, a, b in zip(lines, read_rounded, results, strict=True):
        regrets = teacher.regrets(request, b)
        worst = max(worst, float(regrets.max()))
        pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
        first = next((i for i, (x, y) in pairs if x != y), None)
        if first is not None:
            firsts.append((request.id, first, float(regrets[first])))
    print(f"largest regret {worst:.2g}; first divergences (line, token, regret): {firsts}")
    assert worst <= 1.0
    assert len(firsts) <= len(lines) // 4
