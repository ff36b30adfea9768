"""Every action of the app with its keys: the one table that bindings, command palette and the manual come from.

A keymap is a TOML file of the user's, `action = "key"` or `action = ["key", "key"]`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key, key_to_character

from ocria.config import default_path, read_config
from ocria.errors import UsageError


@dataclass(frozen=True, slots=True)
class Action:
    """Something the user can do. `action_<name>` of the app does it, and a keymap calls it by this name."""

    name: str
    keys: str
    """Parted by commas, as Textual spells them."""
    label: str
    """A word or two, for key hints."""
    help: str
    group: str
    shown: bool = False
    """Whether it is among the key hints at the bottom."""


FILES, PAGES, TEXT, VIEW, APP = "Documents", "Reading", "Text", "View", "App"

ACTIONS = (
    Action("open", "o", "Open", "Choose files and folders to read.", FILES, shown=True),
    Action("settings", "s", "Settings", "Mode, model, pages, formats of what is read from now on.", FILES),
    Action("next_document", "j", "Next document", "Go to the next document.", FILES),
    Action("previous_document", "k", "Previous document", "Go to the document before.", FILES),
    Action("next_page", "right", "Next page", "Go to the next page.", PAGES),
    Action("previous_page", "left", "Previous page", "Go to the page before.", PAGES),
    Action("goto_page", "g", "Go to page", "Go to a page by its number.", PAGES),
    Action("follow", "enter", "Follow", "Follow the page that is being read, or stay here.", PAGES),
    Action("pause", "p", "Pause", "Pause reading, or go on.", PAGES, shown=True),
    Action("cancel_page", "x", "Cancel page", "Give up the page that is shown.", PAGES),
    Action("cancel_document", "X", "Cancel document", "Give up the document that is shown.", PAGES),
    Action("cancel_all", "ctrl+x", "Cancel all", "Give up everything that is running or waits.", PAGES),
    Action("retry", "r", "Retry", "Read the page that is shown again.", PAGES, shown=True),
    Action("retry_with", "R", "Retry with…", "Read pages again with other settings.", PAGES),
    Action("restart", "ctrl+r", "Restart", "Start an engine that has ended, or a recording again.", PAGES),
    Action("search", "slash", "Search", "Look for words in all pages of the document.", TEXT, shown=True),
    Action("next_hit", "n", "Next hit", "Go to the next place where the words were found.", TEXT),
    Action("previous_hit", "N", "Previous hit", "Go to the place before.", TEXT),
    Action("copy_page", "c", "Copy page", "Copy the Markdown of the page to the clipboard.", TEXT),
    Action("copy_document", "C", "Copy document", "Copy the Markdown of the document to the clipboard.", TEXT),
    Action("export", "e", "Export", "Write the document in any format.", TEXT, shown=True),
    Action("edit", "E", "Edit", "Look at the Markdown in $VISUAL or $EDITOR.", TEXT),
    Action("toggle_raw", "m", "Raw Markdown", "Show Markdown as it is written, or as it is meant.", VIEW),
    Action("toggle_boxes", "b", "Boxes", "Show or hide the boxes of lines over the page.", VIEW),
    Action("toggle_images", "i", "Image", "Show or hide the image of the page.", VIEW),
    Action("toggle_log", "l", "Log", "Show or hide the log.", VIEW),
    Action("cycle_theme", "t", "Theme", "Take the next theme.", VIEW),
    Action("keep_theme", "T", "Keep theme", "Begin with this theme from now on.", VIEW),
    Action("command_palette", "ctrl+p", "Palette", "Find any of these by name.", APP, shown=True),
    Action("help", "question_mark", "Help", "All keys.", APP, shown=True),
    Action("quit", "q", "Quit", "End; finished pages are kept.", APP, shown=True),
)
BY_NAME = {action.name: action for action in ACTIONS}
_MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")


def bindings() -> list[Binding]:
    """Of all actions, with the name as the id, which is what `App.set_keymap` goes by."""
    return [
        Binding(action.keys, action.name, action.label, show=action.shown, tooltip=action.help, id=action.name)
        for action in ACTIONS
    ]


def default_keymap(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a keymap is looked for: `keymap.toml` beside the configuration file of `ocria`."""
    return default_path(environment).with_name("keymap.toml")


def read_keymap(path: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """The keys that a file gives to actions, as `App.set_keymap` takes them. Without a path the default file is read
    if it is there.

    Raises:
        UsageError: the file cannot be read or is no TOML; an action or a key that there is not; a key of two actions.
    """
    if path is None:
        path = default_keymap()
        if not path.exists():
            return {}
    file = read_config(path)
    keymap = {}
    for name, value in file.values.items():
        if name not in BY_NAME:
            raise UsageError(f"there is no action {name!r}", path=file.place(name), cure=_nearest(name, BY_NAME))
        keys = [value] if isinstance(value, str) else value
        if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
            raise UsageError(f"{name} must be a key or a list of keys, not {value!r}", path=file.place(name))
        keymap[name] = ",".join(_key(key, file.place(name)) for key in keys)
    _check_doubled(keymap, str(file.path))
    return keymap


def keys_of(keymap: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys of every action with a keymap."""
    return {action.name: keymap.get(action.name, action.keys).split(",") for action in ACTIONS}


def _key(key: str, place: str) -> str:
    """A key as Textual names it."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    named = {item.value.split("+")[-1] for item in Keys} | set(KEY_NAME_REPLACEMENTS.values())
    unknown = [word for word in modifiers if word not in _MODIFIERS]
    if unknown or not (last in named or key_to_character(last) is not None):
        word = unknown[0] if unknown else last
        known = _MODIFIERS if unknown else named
        raise UsageError(f"there is no key {key!r}", path=place, cure=_nearest(word, known))
    return _character_to_key(key) if len(key) == 1 else key


def _check_doubled(keymap: Mapping[str, str], path: str) -> None:
    taken: dict[str, str] = {}
    for name, keys in keys_of(keymap).items():
        for key in keys:
            if key in taken:
                pair = f"{taken[key]} and {name}"
                cure = f"Give {name if taken[key] in keymap else taken[key]} another key in this file"
                raise UsageError(f"the key {key} is that of {pair}", path=path, cure=cure)
            taken[key] = name


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else "`ocria tui` lists actions and keys with the key ?"
