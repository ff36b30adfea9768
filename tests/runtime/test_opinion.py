"""The second opinion of the vision encoder's head on a finished line."""

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from ocria.runtime.opinion import MARGIN, SecondOpinion, differences, replaced
from ocria.runtime.request import Result
from ocria.spec.vision import BLANK, ReadingConfig, VisionReading

CHARACTERS = "abcdefgh -é"
CLASSES = 1 + len(CHARACTERS)
FRAMES = 2
SURE, BEST = 0.99999, 0.9


def opinion():
    """A head whose image tokens are the logits of its frames themselves."""
    config = ReadingConfig(FRAMES, CHARACTERS)
    spellings = [[], *([1 + i] if c.isascii() else [200, 201] for i, c in enumerate(CHARACTERS))]
    return SecondOpinion(VisionReading(config, torch.eye(FRAMES * CLASSES), torch.zeros(FRAMES * CLASSES), spellings))


def read(result):
    return opinion().on(result).text


def frames(text, others=None, best=BEST):
    """Image tokens [N, D] on which the head reads `text`; others: {place: (character, probability)} beside it."""
    labels = []
    for place, character in enumerate(text):
        one = torch.full((CLASSES,), (1 - best) / (CLASSES - 1))
        one[1 + CHARACTERS.index(character)] = best
        if others and place in others:
            other, probability = others[place]
            one[1 + CHARACTERS.index(other)] = probability
        blank = torch.full((CLASSES,), 1e-6)
        blank[BLANK] = 1
        labels += [one, blank]
    return torch.stack(labels).log().view(-1, FRAMES * CLASSES)


def result(text, tokens, probability=SURE, loop_start=None):
    count = sum(1 if c.isascii() else 2 for c in text)
    given = (probability,) * (count + 1) if isinstance(probability, float) else tuple(probability)
    return Result(
        0, text, (1,) * count, "ok", "stop", 0.9, 0.5, 9, count, 0.1, loop_start, probabilities=given,
        image_tokens=tokens,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "a", "abba cab", "é-é"])
def test_likelihoods_are_the_sums_over_alignments(text):
    """Against the definition: every path of labels, collapsed."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).log_softmax(1)
    judge = SecondOpinion(VisionReading(ReadingConfig(1, "ab"), torch.eye(3), torch.zeros(3), [[], [1], [2]]))
    sums = {}
    for path in torch.cartesian_prod(*[torch.arange(3)] * 4).tolist():
        labels = [a for before, a in pairwise([None, *path]) if a != before and a != BLANK]
        made = "".join("ab"[label - 1] for label in labels)
        sums[made] = sums.get(made, 0.0) + math.exp(sum(scores[i, a].item() for i, a in enumerate(path)))
    texts = ["", "a", "ab", "bab", "aa", "aaa", "abab"]
    found = judge.likelihoods([*texts, text + "c"], scores)
    for one, value in zip(texts, found[:-1], strict=True):
        expected = math.log(sums[one]) if one in sums else -math.inf
        assert value == pytest.approx(expected, abs=1e-4), one
    assert found[-1] == -math.inf, "a character without a class"


def test_where_both_read_alike_nothing_is_decided():
    text = "abba cab-é"
    assert read(result(text, frames(text), 0.01)) == text


def test_a_line_without_image_tokens_is_as_the_decoder_wrote_it():
    assert read(result("abc", None)) == "abc"


@pytest.mark.parametrize(
    ("wrong", "right"), [("abd fed", "abc fed"), ("abc fe", "abc fed"), ("abc ffed", "abc fed"), ("abc", "abc fed")]
)
def test_a_clear_reading_replaces_what_the_decoder_was_unsure_of(wrong, right):
    assert read(result(wrong, frames(right, best=0.999), 0.4)) == right


def test_the_decoder_has_the_benefit_of_the_doubt():
    """`d` in place of `c`: the frames prefer c by a chosen number of nats."""
    for nats, probability, replaces in (
        (MARGIN - 0.5, 0.5, False), (MARGIN + 0.5, 0.5, True), (MARGIN + 0.5, SURE, False),
        (MARGIN + 3.5, 0.95, True), (MARGIN + 2.5, 0.95, False),  # log(0.95 / 0.05) = 2.94
    ):  # fmt: skip
        best = 0.99
        tokens = frames("abc", {2: ("d", best * math.exp(-nats))}, best)
        assert read(result("abd", tokens, probability)) == ("abc" if replaces else "abd"), (nats, probability)


def test_each_difference_is_decided_by_itself():
    tokens = frames("abc fed", {1: ("h", 0.5)}, 0.99)
    # h for b is nearly as likely, g for f is not.
    assert read(result("ahc ged", tokens, 0.5)) == "ahc fed"


def test_the_certainty_is_that_of_the_character_in_question():
    text, tokens = "éb d", frames("éc d", {1: ("b", 0.99 * math.exp(-MARGIN - 2))}, 0.99)
    sure = [0.5, 0.5, SURE, 0.5, 0.5, 0.5]  # é is two tokens
    unsure = [SURE, SURE, 0.5, SURE, SURE, SURE]
    assert read(result(text, tokens, sure)) == text
    assert read(result(text, tokens, unsure)) == "éc d"


def test_a_loop_ends_where_the_line_does():
    text = "abc" + "de" * 40
    found = read(result(text, frames("abc de", best=0.99999), 0.5, loop_start=5))
    assert found == "abc de"
    assert opinion().on(result(text, frames("abc de", best=0.99999), 0.5, loop_start=5)).whole
    assert not opinion().on(result(text, frames("abc de"), SURE, loop_start=4)).whole
    long = result("abcde" * 30, frames("abc de", best=0.99999), 0.5)
    assert read(long) == "abc de", "longer than the frames"


def test_characters_that_the_head_does_not_know_stay():
    assert read(result("aЖc", frames("abc"), 0.4)) == "aЖc"
    # Bytes that are no text do not.
    assert read(result("a\ufffdc", frames("abc"), SURE)) == "abc"
    assert read(result("a\ufffdЖ", frames("abc"), SURE)) != "a\ufffdЖ"


def test_texts_that_share_nothing_are_decided_as_a_whole():
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    r = random.Random(seed)
    wrong, right = ("".join(r.choice(half) for _ in range(60)) for half in ("abcd", "efgh"))
    assert read(result(wrong, frames(right), 0.5)) == right


def test_differences_lead_from_one_text_to_the_other():
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    r = random.Random(seed)
    for _ in range(200):
        a, b = ("".join(r.choices("abc ", k=r.randrange(12))) for _ in range(2))
        found = differences(a, b)
        assert replaced(a, found) == b
        assert all(first.stop < second.start for first, second in pairwise(found))
        assert bool(found) == (a != b)


def test_a_request_brings_its_image_tokens_only_if_it_asked(tmp_path):
    import numpy as np

    from ocria.document.reader import NANO
    from ocria.model.checkpoint import load_model
    from ocria.runtime.engine import Engine
    from ocria.runtime.request import Request

    loaded = load_model(NANO, dtype=torch.float32, device=torch.device("cpu"))
    prompt = loaded.tokenizer.render(loaded.profile.messages(), **loaded.profile.template_kwargs)
    asked = Request(0, prompt, [np.full((40, 320), 255, np.uint8)], keep_image_tokens=True)
    kept, plain = Engine(loaded).run([asked, replace(asked, id=1, keep_image_tokens=False)])
    assert kept.image_tokens.shape == (8, loaded.config.text.hidden_size)
    assert plain.image_tokens is None
    assert kept.text == plain.text
    assert len(kept.probabilities) == kept.tokens_out + (kept.finish_reason == "stop")
    assert SecondOpinion.of(loaded) is not None
    assert SecondOpinion.of(loaded.with_profile(loaded.profile.override(unit="page"))) is None
