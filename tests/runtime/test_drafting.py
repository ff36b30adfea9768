"""Which drafters `--draft` means, and what they will need, before anything is loaded."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file
from test_network_drafts import drafter_data, random_drafter

from ocria.document.reader import NANO
from ocria.errors import ConfigError, UsageError
from ocria.model.checkpoint import load_model
from ocria.runtime.drafting import TEXT_ROWS, choose_drafts, open_drafts
from ocria.spec.vision import CONFIG, WEIGHTS


@pytest.fixture(scope="module")
def nano():
    return load_model(NANO, dtype=torch.float32)


@pytest.fixture
def folder(tmp_path):
    """A checkpoint with a head of its own and no drafter, as far as is looked at here."""
    for name in (CONFIG, WEIGHTS, "config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(NANO / name, tmp_path)
    return tmp_path


def save_drafter(folder, version):
    folder.mkdir(parents=True)
    network = random_drafter(version, 0)
    save_file({name: p.contiguous() for name, p in network.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(drafter_data(version)), encoding="utf-8")
    return folder


def test_none_is_plain_decoding(folder):
    for choice in (choose_drafts("none", folder, "line"), choose_drafts("auto", folder, "line", rows=1)):
        assert (str(choice), choice.rows, choice.bytes_per_slot(100, torch.float32)) == ("none", 1, 0)
        assert open_drafts(choice, None) is None


def test_auto_is_what_the_model_has(folder, tmp_path):
    assert choose_drafts("auto", folder, "line").texts == ("lookup", "vision")
    assert choose_drafts("auto", folder, "page").texts == ("lookup", "ngram", "vision")
    (folder / CONFIG).unlink()
    assert choose_drafts("auto", folder, "line").texts == ("lookup",)
    own = save_drafter(folder / "drafter", 2)
    choice = choose_drafts("auto", folder, "line")
    assert (choice.texts, choice.network) == (("lookup",), own)
    assert choice.rows == TEXT_ROWS
    assert str(choice) == "lookup+drafter"
    shutil.copy(NANO / CONFIG, folder)
    assert str(choose_drafts("auto", folder, "line")) == "lookup+vision", "beside vision a network brings little"
    assert choose_drafts("lookup,vision,own", folder, "line").network == own


def test_a_network_alone_makes_steps_of_a_block(folder, tmp_path):
    own = save_drafter(tmp_path / "somewhere", 1)
    choice = choose_drafts(str(own), folder, "line")
    assert (choice.texts, choice.rows) == ((), 6)
    assert choose_drafts(f"vision,{own}", folder, "line").rows == TEXT_ROWS
    assert choose_drafts(str(own), folder, "line", rows=4).rows == 4


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("oracle", "neither a kind of drafts nor a drafter's folder"),
        ("", "neither"),
        ("lookup,,vision", "neither"),
        ("lookup,lookup", "twice"),
        ("{own},{own}", "one network"),
    ],
)
def test_what_is_no_drafter_is_refused(folder, tmp_path, draft, said):
    own = save_drafter(tmp_path / "somewhere", 1)
    with pytest.raises(UsageError, match=said):
        choose_drafts(draft.format(own=own), folder, "line")


def test_a_model_without_a_head_for_it_cannot_draft_by_vision(folder):
    (folder / CONFIG).unlink()
    with pytest.raises(UsageError, match="no head"):
        choose_drafts("vision", folder, "line")


def test_a_model_without_a_drafter_has_no_own_one(folder):
    with pytest.raises(UsageError, match="no drafter of its own"):
        choose_drafts("own", folder, "line")


def test_a_drafter_of_another_model_is_refused(nano, folder, tmp_path):
    own = save_drafter(tmp_path / "somewhere", 1)
    with pytest.raises(ConfigError, match="hidden_size"):
        open_drafts(choose_drafts(str(own), folder, "line"), nano.network)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("max_len", [64, 200])
def test_what_was_planned_is_what_is_allocated(loaded, folder, tmp_path, version, max_len):
    own = save_drafter(tmp_path / "somewhere", version)
    choice = choose_drafts(str(own), folder, "page")
    chain = open_drafts(choice, loaded.network)
    assert choice.bytes_per_slot(max_len, torch.float32) == chain.bytes_per_slot(max_len)
    assert choice.weight_bytes(torch.float32) == chain.networks[0].weights
    texts = choose_drafts("lookup,vision", NANO, "page")
    with_texts = open_drafts(texts, load_model(NANO, dtype=torch.float32).network)
    assert texts.bytes_per_slot(max_len, torch.float32) == with_texts.bytes_per_slot(max_len)
