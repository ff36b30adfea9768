"""A drafter's training data: the target's own answers, and what its layers hold."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from ocria.document.reader import NANO
from ocria.model.checkpoint import load_model
from ocria.model.line import crop_to_ink, line_image
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.train.drafter.data import collect, joined, read_shard, shard_path, taught
from ocria.train.drafter.sources import line_images, page_images
from ocria.train.drafter.teacher import Teacher


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher(load_model(NANO, dtype=torch.float32), taps=(0, 3))


def line(text: str) -> np.ndarray:
    image = Image.new("L", (24 * len(text) + 60, 80), 255)
    ImageDraw.Draw(image).text((20, 15), text, font=ImageFont.load_default(size=36), fill=0)
    return line_image(crop_to_ink(np.asarray(image)))


def output(answer) -> list[int]:
    return answer.ids[answer.prompt :].tolist()


def test_answers_are_the_engines_and_features_those_of_the_rows_that_were_fed(teacher):
    image = line(f"Number {np.random.default_rng().integers(100, 999)} of them")
    (answer,) = taught(teacher, [(image, None)], batch=4)
    (greedy,) = teacher.greedy([image])
    assert output(answer) == greedy
    assert greedy[-1] == teacher.stop_id
    rows = len(answer.ids) - 1
    assert answer.features.shape == (rows, 2 * 256)
    assert answer.position.shape == (rows,)

    # The same rows one by one through the state, as an engine would feed them.
    prompt = teacher.prompt(image)
    tokens = answer.prompt - 2
    assert answer.position.tolist() == [0, *range(1, 1 + tokens), *range(1 + tokens, rows)]
    network, config = teacher.network, teacher.config.text
    seen = {0: [], 3: []}

    def keep(tap):
        return lambda module, given, made: seen[tap].append((made[0] + made[1])[0])

    hooks = [network.model.language_model.layers[tap].register_forward_hook(keep(tap)) for tap in seen]
    with torch.inference_mode():
        hidden = network.embed(answer.ids[:-1])
        hidden[1 : 1 + tokens] = network.encode_image(prompt.pixels, [prompt.grid])
        state = DecoderState.allocate(config, 2, rows, torch.float32)
        after = torch.arange(answer.prompt, rows) + (int(prompt.positions.max()) + 1 - answer.prompt)
        positions = torch.cat([prompt.positions, after.expand(3, -1)], dim=1)
        cos, sin = text_rope(positions, config.rotary_dim, config.rope_theta, config.mrope_section)
        for row in range(rows):
            window = Window.prefill(torch.tensor([1]), torch.tensor([row]), torch.tensor([1]), cos[None, row : row + 1],
                                    sin[None, row : row + 1], row + 1, rows)  # fmt: skip
            network.decoder(hidden[None, row : row + 1], window, state)
    for hook in hooks:
        hook.remove()
    whole = torch.cat([torch.cat(seen[0]), torch.cat(seen[3])], dim=1)
    # The features are rounded to bf16; the rest of the difference is fp32 sums in another order.
    torch.testing.assert_close(answer.features.float(), whole, rtol=1e-2, atol=2e-2)


def test_a_text_that_is_the_targets_own_is_not_decoded_and_another_is(teacher, monkeypatch):
    images = [line("first of two"), line("second of the two")]
    known = taught(teacher, [(image, None) for image in images], batch=4)
    text = {len(a.ids): bytes(output(a)[:-1]).decode() for a in known}
    texts = [text[len(a.ids)] for a in sorted(known, key=lambda a: len(a.ids))]
    decoded = []
    greedy = Teacher.greedy

    def counted(self, images):
        decoded.append(len(images))
        return greedy(self, images)

    monkeypatch.setattr(Teacher, "greedy", counted)
    again = taught(teacher, [(images[0], texts[0]), (images[1], texts[1] + "?")], batch=4)
    assert decoded == [1]
    assert sorted(map(output, again)) == sorted(map(output, known))


def test_collecting_goes_on_where_it_stopped(teacher, tmp_path):
    asked = []

    def source(number):
        asked.append(number)
        return [(line(f"shard {number}"), None)] * (number != 1) if number < 4 else None

    collect(teacher, source, tmp_path, 0, 3)
    shard_path(tmp_path, 0).unlink()
    asked.clear()
    collect(teacher, source, tmp_path, 0, 9)
    assert asked == [0, 1, 3, 4]  # there was a shard 2; shard 1 is blank, and the source ends before 4
    (answer,) = read_shard(shard_path(tmp_path, 2))
    (fresh,) = taught(teacher, [(line("shard 2"), None)], batch=4)
    assert joined([answer]).keys() == joined([fresh]).keys()
    for name, tensor in joined([answer]).items():
        # Other sizes of batches sum in another order before the rounding to bf16.
        torch.testing.assert_close(tensor.float(), joined([fresh])[name].float(), rtol=1e-2, atol=2e-2)


def test_pages_are_cut_into_lines_where_the_target_reads_lines(tmp_path):
    page = Image.new("RGB", (700, 300), "white")
    draw = ImageDraw.Draw(page)
    for number in range(3):
        draw.text((60, 40 + 70 * number), "a line of words on a page", font=ImageFont.load_default(size=32), fill=0)
    page.save(tmp_path / "page.png")
    source = page_images([tmp_path], "line", 1)
    lines = [image for image, text in source(0) if text is None]
    assert len(lines) == 3
    assert all(image.shape[0] == 40 for image in lines)
    assert all(np.array_equal(a, b) for a, b in zip(lines, line_images(np.asarray(page)), strict=True))
    assert source(1) is None
    ((whole, _),) = page_images([tmp_path / "page.png"], "page", 1)(0)
    assert np.array_equal(whole, np.asarray(page))
