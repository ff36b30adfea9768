"""Readings of the vision encoder: collapsed, spelt and ended as in training, whatever shares the pass; and files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from writing import Writing

from ocria.errors import CheckpointError, ConfigError
from ocria.model.checkpoint import load_model
from ocria.model.tokens import Tokenizer
from ocria.spec.source import Admission
from ocria.spec.vision import ReadingConfig, VisionReading, has_reading, kept, spell
from ocria.train.architecture import model_config
from ocria.train.export import export
from ocria.train.learner import Learner
from ocria.train.vocabulary import CTC_FRAMES, IM_END, ctc_text

STOP = 900
CHARACTERS = "ab c"
SPELT = [[], [10], [20, 21, 22], [32], [40, 41]]  # blank, a, b, space, c
SPACE, WIDTH = 3, 6
NANO = Path(__file__).parents[2] / "ocria" / "assets" / "nano"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(torch.seed() % 2**31)
    folder, learner = tmp_path_factory.mktemp("nano"), Learner(model_config()).eval()
    export(learner, folder)
    return folder, learner


@pytest.fixture
def reading(generator):
    """A source with random weights, two frames an image token."""
    weight, bias = torch.randn(2 * 5, WIDTH, generator=generator), torch.randn(2 * 5, generator=generator)
    return VisionReading(ReadingConfig(2, CHARACTERS), weight, bias, SPELT)


def read(reading, features):
    """Labels of image tokens [N, WIDTH], one frame after another, collapsed and spelt."""
    labels = []
    for token in features.double():
        scores = reading.weight.double() @ token + reading.bias.double()
        labels += [int(scores[:5].argmax()), int(scores[5:].argmax())]
    return spelt(labels)


def spelt(labels):
    text, last = [], 0
    for label in labels:
        if label not in (last, 0) and not (label == SPACE and text[-1:] in ([SPACE], [])):
            text.append(label)
        last = label
    return [token for label in text[: len(text) - (text[-1:] == [SPACE])] for token in SPELT[label]]


@pytest.mark.parametrize("max_len", [120, 23])
def test_readings_of_many_requests_at_once(reading, generator, max_len):
    writing = Writing(reading, 9, max_len)
    features = {slot: torch.randn(n, WIDTH, generator=generator) for slot, n in ((5, 13), (1, 1), (8, 30), (2, 7))}
    admissions = [Admission(slot, slot, features=(part,), stop_id=STOP) for slot, part in features.items()]
    admissions.insert(2, Admission(3, 4, features=(), stop_id=STOP))
    writing.source.admit(admissions)
    found = writing.drafts({a.slot: (a.first, []) for a in admissions}, width=150)
    expected = [[*read(reading, part)[: max_len - 1], STOP] for part in features.values()]
    expected.insert(2, [])
    assert found == expected
    assert max(map(len, expected)) > 20


def test_parts_of_one_request_are_read_one_after_another(reading, generator):
    writing = Writing(reading, 3, 80)
    whole = torch.randn(11, WIDTH, generator=generator)
    writing.source.admit([Admission(2, 1, features=(whole[:4], whole[4:])), Admission(1, 1, features=(whole,))])
    one, other = writing.drafts({2: (1, []), 1: (1, [])}, width=70)
    assert one == other == read(reading, whole)


def test_a_new_owner_finds_nothing_of_the_old_one(reading, generator):
    writing = Writing(reading, 2, 60)
    long, short = torch.randn(20, WIDTH, generator=generator), torch.randn(2, WIDTH, generator=generator)
    for part, stop in ((long, STOP), (short, None), (long, STOP)):
        writing.source.admit([Admission(1, 6, features=(part,), stop_id=stop)])
        assert writing.drafts({1: (6, [])}, width=60) == [[*read(reading, part), *([] if stop is None else [stop])]]
    writing.source.admit([Admission(1, 6)])
    assert writing.drafts({1: (6, [])}) == [[]]


def test_after_a_restart_the_reading_goes_on(reading, generator):
    part = torch.randn(25, WIDTH, generator=generator)
    text = [*read(reading, part), STOP]
    writing = Writing(reading, 2, 100)
    writing.source.admit([Admission(1, 30, chosen=4, features=(part,), stop_id=STOP)])
    assert writing.drafts({1: (30, [])}) == [text[4:12]]


def test_collapsing_is_that_of_the_training(generator):
    """Random paths with long runs, many blanks and many spaces, in lines of every length."""
    path = torch.tensor([0, 0, 1, 2, SPACE, SPACE, 4])
    lines = [torch.randint(7, (n,), generator=generator) for n in (1, 2, 3, 40, 1, 90, 7, 300)]
    lines = [path[line].repeat_interleave(torch.randint(1, 4, (len(line),), generator=generator)) for line in lines]
    owner = torch.cat([torch.full((len(line),), i) for i, line in enumerate(lines)])
    keep = kept(torch.cat(lines), owner, SPACE)
    for i, line in enumerate(lines):
        assert [t for label in line[keep[owner == i]].tolist() for t in SPELT[label]] == spelt(line.tolist())


def test_an_exported_model_reads_as_in_its_training(exported, generator):
    """Labels of random features: the characters that the trainer's collapse gives, as UTF-8, in single spaces."""
    folder, learner = exported
    source = VisionReading.load(folder, torch.float32, "cpu")
    with torch.no_grad():  # as rounded in the file, and blanks and spaces often enough
        for name in ("weight", "bias"):
            parameter = getattr(learner.ctc, name)
            parameter.copy_(parameter.bfloat16().float())
            getattr(source, name).copy_(parameter)
        for parameter in (source.bias, learner.ctc.bias):
            parameter.view(CTC_FRAMES, -1)[:, :2] += 2.5
    features = [torch.randn(n, source.weight.shape[1], generator=generator) for n in (3, 17, 40)]
    writing = Writing(source, 4, 900)
    source.admit([Admission(i + 1, 0, features=(part,), stop_id=IM_END) for i, part in enumerate(features)])
    found = writing.drafts({i + 1: (0, []) for i in range(3)}, width=900)
    for part, tokens in zip(features, found, strict=True):
        text = ctc_text(learner.ctc_logits(part[None])[0].argmax(-1).tolist())
        assert bytes(tokens[:-1]).decode() == " ".join(text.split())
        assert tokens[-1] == IM_END
        assert len(text) > 2


def test_the_shipped_model_drafts_most_lines_without_a_fault():
    """On the scan of the examples, whose text is known."""
    from ocria.document.lines import find_lines
    from ocria.model.image import preprocess
    from ocria.model.line import line_image

    examples = NANO.parents[2] / "examples"
    gray = np.asarray(Image.open(examples / "scan.png").convert("L"))
    loaded = load_model(NANO, dtype=torch.float32)
    source = VisionReading.load(NANO, torch.float32, "cpu")
    crops = [line_image(line.crop) for line in find_lines(gray).lines]
    admissions = []
    with torch.inference_mode():
        for slot, crop in enumerate(crops, start=1):
            pixels, grid = preprocess(crop, loaded.image)
            features = loaded.network.encode_image(pixels, [grid])
            admissions.append(Admission(slot, 9, features=(features,), stop_id=IM_END))
    writing = Writing(source, len(crops) + 1, 400)
    source.admit(admissions)
    truth = " ".join((examples / "scan.txt").read_text(encoding="utf-8").split()).encode()
    drafted = writing.drafts({a.slot: (9, []) for a in admissions}, width=400)
    right = [bytes(line[:-1]) in truth and line[-1] == IM_END for line in drafted]
    print(sum(right), "of", len(right))
    assert sum(right) > 0.8 * len(crops)


def test_spellings_are_the_tokens_of_the_target():
    tokenizer = Tokenizer(NANO)
    assert spell("aé€ ", tokenizer) == [[], [97], list("é".encode()), list("€".encode()), [32]]


class Joining:
    """A tokenizer that has a token for two letters."""

    folder = Path("somewhere")

    def encode(self, text):
        return [1] if text == "th" else [ord(c) for c in text]


def test_a_tokenizer_that_joins_characters_is_refused():
    with pytest.raises(ConfigError, match=r"joins characters.*ctc\.json"):
        spell("th", Joining())


def altered(exported, tmp_path, config=None, tensors=None):
    """The exported checkpoint with another ctc.json or other tensors."""
    for file in exported[0].iterdir():
        if file.name != "model.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    if config is not None:
        data = json.loads((tmp_path / "ctc.json").read_text(encoding="utf-8"))
        (tmp_path / "ctc.json").write_text(json.dumps(config(data)), encoding="utf-8")
    if tensors is not None:
        save_file(tensors(load_file(tmp_path / "ctc.safetensors")), tmp_path / "ctc.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda data: data | {"frame": 6}, "unknown key 'frame'.*frames"),
        (lambda data: {"frames": 6}, "missing characters"),
        (lambda data: data | {"frames": 0}, "frames must be at least 1"),
        (lambda data: data | {"frames": "6"}, "frames must be a whole number"),
        (lambda data: data | {"characters": ""}, "characters is empty"),
        (lambda data: data | {"characters": "abca"}, "'a' has two classes"),
    ],
)
def test_a_faulty_config_is_named(exported, tmp_path, config, message):
    with pytest.raises(ConfigError, match=rf"ctc\.json.*{message}"):
        VisionReading.load(altered(exported, tmp_path, config), torch.float32, "cpu")


@pytest.mark.parametrize(
    "tensors",
    [
        lambda t: {"weight": t["weight"]},
        lambda t: t | {"scale": torch.ones(1)},
        lambda t: t | {"weight": t["weight"][:-1].contiguous()},
        lambda t: t | {"weight": t["weight"][:, :-1].contiguous()},
        lambda t: t | {"bias": t["bias"].to(torch.int8)},
    ],
)
def test_faulty_weights_are_named(exported, tmp_path, tensors):
    with pytest.raises(CheckpointError, match=r"ctc\.safetensors"):
        VisionReading.load(altered(exported, tmp_path, tensors=tensors), torch.float32, "cpu")


def test_missing_and_broken_files_are_named(exported, tmp_path):
    folder = altered(exported, tmp_path)
    assert has_reading(folder)
    (folder / "ctc.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        VisionReading.load(folder, torch.float32, "cpu")
    (folder / "ctc.safetensors").unlink()
    with pytest.raises(CheckpointError, match="file not found"):
        VisionReading.load(folder, torch.float32, "cpu")
    (folder / "ctc.json").unlink()
    assert not has_reading(folder)
    with pytest.raises(ConfigError, match="file not found"):
        VisionReading.load(folder, torch.float32, "cpu")


def test_the_head_takes_the_dtype_of_the_target(exported):
    source = VisionReading.load(exported[0], torch.bfloat16, "cpu")
    assert source.weight.dtype == source.bias.dtype == torch.bfloat16
    assert source.labels(torch.zeros(3, source.weight.shape[1])).shape == (3 * CTC_FRAMES,)
