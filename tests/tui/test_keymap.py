"""The table of actions, and files that give them other keys."""

import random

import pytest
from ocria_tui.actions import Actions
from ocria_tui.keymap import ACTIONS, BY_NAME, bindings, default_keymap, keys_of, read_keymap
from textual.app import App

from ocria.errors import UsageError


def written(tmp_path, text):
    path = tmp_path / "keymap.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_action_can_be_done_and_has_keys_of_its_own():
    class Something(Actions, App):
        pass

    for action in ACTIONS:
        assert callable(getattr(Something, f"action_{action.name}")), action.name
    keys = [key for given in keys_of({}).values() for key in given]
    assert len(keys) == len(set(keys))
    assert {binding.id for binding in bindings()} == set(BY_NAME)


def test_no_file_is_no_keymap(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read_keymap() == {}
    default_keymap().parent.mkdir()
    default_keymap().write_text('export = "w"\n')
    assert default_keymap() == tmp_path / "ocria" / "keymap.toml"
    assert read_keymap() == {"export": "w"}


def test_one_key_or_several_by_name_or_character(tmp_path):
    path = written(tmp_path, 'help = ["f1", "?", "ctrl+h"]\ntoggle-raw = "M"\nsearch = "/"\ngoto_page = "shift+f3"\n')
    assert read_keymap(path) == {
        "help": "f1,question_mark,ctrl+h", "toggle_raw": "M", "search": "slash", "goto_page": "shift+f3",
    }  # fmt: skip


def test_keys_may_change_places(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    names = list(BY_NAME)
    shuffled = random.Random(seed).sample(names, len(names))
    text = "".join(f'{name} = "{BY_NAME[other].keys}"\n' for name, other in zip(names, shuffled, strict=True))
    keymap = read_keymap(written(tmp_path, text))
    assert keys_of(keymap) == {name: [BY_NAME[other].keys] for name, other in zip(names, shuffled, strict=True)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('exprot = "w"', "Did you mean 'export'?"),
        ('export = "contrl+e"', "Did you mean 'ctrl'?"),
        ('export = "entr"', "Did you mean 'enter'?"),
        ('export = "q"', "the key q is that of export and quit. Give quit another key"),
        ('export = "f5"\nopen = ["f6", "f5"]', "the key f5 is that of open and export"),
        ('export = ""', "there is no key ''"),
        ("export = []", "a key or a list of keys"),
        ("export = 5", "a key or a list of keys"),
        ("export = [5]", "a key or a list of keys"),
        ("export = ", "not valid TOML"),
    ],
)
def test_what_a_keymap_gets_wrong(tmp_path, text, told):
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_keymap(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_keymap_that_is_named_must_be_there(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        read_keymap(tmp_path / "none.toml")
