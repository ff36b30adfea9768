"""Calibration of the embedded model on drawn lines: what it wins on lines that it has not seen."""


import numpy as np
import pytest
import torch
from networks_made import block_errors, calibrated, plan_of, quantised
from PIL import Image, ImageDraw, ImageFont

from ocria.document.reader import NANO
from ocria.model.checkpoint import load_model
from ocria.model.line import line_image
from ocria.quant.calibration.awq import Folds, scale
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.passes import Passes
from ocria.quant.simulate import simulated
from ocria.runtime.request import Request, Result

TEXT = (
    "the house was built by a friend of mine who had read that every river in this part of Europe is clean; 17 of them "
    "(as you know), were not. Quick brown foxes jump over lazy dogs, said Mr. Zimmermann in 1984."
)


def drawn_lines(loaded, rng: torch.Generator, number: int) -> list[Sample]:
    """Lines of random words with what they say as the answer."""
    font, words, samples = ImageFont.load_default(30), TEXT.split(), []
    prompt = loaded.tokenizer.render(loaded.profile.messages(), **loaded.profile.template_kwargs)
    for index in range(number):
        text = " ".join(words[place] for place in torch.randint(len(words), (6,), generator=rng).tolist())
        image = Image.new("L", (40 + int(font.getlength(text)), 50), 255)
        ImageDraw.Draw(image).text((20, 5), text, font=font, fill=0)
        tokens = tuple(loaded.tokenizer.encode(text))
        request = Request(index, prompt, [line_image(np.asarray(image))])
        samples.append(Sample(request, Result(index, text, tokens, "ok", "stop", 1.0, 1.0, 0, len(tokens), 0.0)))
    return samples


@pytest.fixture
def loaded():
    return load_model(NANO, dtype=torch.float32)


def test_the_lines_are_what_the_model_reads(loaded, rng):
    passes = Passes(loaded, drawn_lines(loaded, rng, 6))
    answers = [torch.tensor(result.tokens) for _, result in passes.samples]
    right = torch.cat([passes(index)[:-1].argmax(-1) == answer for index, answer in enumerate(answers)])
    assert right.float().mean() > 0.8


def test_scaling_helps_every_block_on_lines_not_seen(loaded, rng, monkeypatch):
    monkeypatch.setattr("ocria.quant.calibration.awq.STEPS", 4)
    network = loaded.network
    run, unseen = (Passes(loaded, drawn_lines(loaded, rng, number)).run for number in (12, 6))
    plan = plan_of(network, "nvfp4")
    found, calls = calibrated(network, run, plan)
    plain = block_errors(network, plan, Folds(statistics=found), *calibrated(network, unseen, plan))
    folds = scale(network, found, plan, calls)
    scaled = block_errors(network, plan, folds, *calibrated(network, unseen, plan))
    ratios = torch.tensor([scaled[name] / plain[name] for name in plain])
    assert ratios.mean() < 0.95
    assert (ratios < 1.05).float().mean() > 0.7


def test_gptq_halves_the_error_behind_the_last_layer(loaded, rng):
    network = loaded.network
    run, unseen = (Passes(loaded, drawn_lines(loaded, rng, number)).run for number in (16, 6))
    plan = plan_of(network, "nvfp4")
    statistics, _ = calibrated(network, run, plan, hessian=plan)
    hidden: list[torch.Tensor] = []
    network.model.language_model.register_forward_hook(lambda _, args, y: hidden.append(y[0]))

    def outputs() -> torch.Tensor:
        hidden.clear()
        unseen()
        return torch.cat(hidden)

    wanted, errors = outputs(), []
    for gptq in (False, True):
        with simulated(network, quantised(network, plan, Folds(statistics=statistics), gptq=gptq)):
            errors.append(((outputs() - wanted).square().sum(-1) / wanted.square().sum(-1)).mean().item())
    assert errors[1] < 0.7 * errors[0]
