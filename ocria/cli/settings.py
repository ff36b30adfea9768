"""Every option as a setting: from the command line, else the environment, else a configuration file, else its default.

A setting has the long name of its option, underscores for hyphens: `--page-timeout 60` is `page_timeout = 60` in a
file and `OCRIA_PAGE_TIMEOUT=60` in the environment. What switches something off, such as `--no-graph`, is `graph`.
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ocria.cli.convert import from_file, from_text, is_switch
from ocria.cli.parser import Parser, Unset
from ocria.config import ConfigFile, default_path, read_config
from ocria.errors import UsageError

SECRETS = {"password"}
"""Settings whose values are shown nowhere."""
_NOT_IN_FILES = {"config", "no_config"}
# Beside the groups that argparse knows: what is said in one place takes back what the other one says in a weaker place.
_EXCLUSIVE = [{"password", "password_file"}, {"quiet", "verbose"}, {"quiet", "progress"}, {"config", "no_config"}]
_EXCLUDES_NOTHING = (False, None, "auto", "none")
_STRENGTH = ("default", "file", "environment", "command line")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option with its value, and where that came from."""

    name: str
    value: Any
    origin: str
    """`command line`, `environment`, `file` or `default`."""
    source: str | None = None
    """The variable, or the file with the line."""

    @property
    def shown(self) -> Any:
        """The value, but of a secret only whether it is set."""
        return "set" if self.name in SECRETS and self.value is not None else self.value


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a command in the order of its help, and the files that were read."""

    items: list[Setting]
    files: list[ConfigFile]


def settle(options: argparse.Namespace, top: Parser, environment: Mapping[str, str] = os.environ) -> Settings:
    """Give every option of a parsed command line its value, in place. `top`: the parser of all commands, whose options
    are what a file may hold.

    Raises:
        UsageError: a file or a variable with an unknown name or a value that its option does not take, whichever
            command it concerns.
    """
    own = named(options.parser.options())
    layers = {name: _from_outside(options, name, actions, environment) for name, actions in own.items()}
    paths = _paths(layers, environment)
    files = [read_config(path) for path in paths]
    known = named(action for parser in parsers(top) for action in parser.options())
    for file in files:
        values = _values(file, known)
        for name in own.keys() & values.keys():
            if layers[name].origin in ("default", "file"):
                layers[name] = Setting(name, values[name], "file", file.place(name))
    _exclude(options.parser, own, layers)
    for name, actions in own.items():
        setattr(options, actions[0].dest, layers[name].value)
    return Settings([layers[name] for name in own], files)


def named(actions: Iterable[argparse.Action]) -> dict[str, list[argparse.Action]]:
    """Options by the name of their setting. Those that set the same thing are one setting; the first of a list takes
    its values, one that takes a value before a switch."""
    by_dest: dict[str, list[argparse.Action]] = {}
    for action in actions:
        by_dest.setdefault(action.dest, []).append(action)
    found: dict[str, list[argparse.Action]] = {}
    for dest, alike in by_dest.items():
        alike.sort(key=lambda action: (is_switch(action), action.const is False))
        found[_name(dest, alike[0])] = alike
    return found


def parsers(top: Parser) -> list[Parser]:
    """The parser and those of all commands below it."""
    return [top, *(below for command in top.commands().values() for below in parsers(command))]


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"OCRIA_{name.upper()}"


def _name(dest: str, action: argparse.Action) -> str:
    if is_switch(action) and action.const is False:
        return dest
    long = next((string for string in action.option_strings if string.startswith("--")), dest)
    return long.lstrip("-").replace("-", "_")


def _from_outside(
    options: argparse.Namespace, name: str, actions: list[argparse.Action], environment: Mapping[str, str]
) -> Setting:
    """From the command line, else from the environment, where an empty variable says nothing."""
    value = getattr(options, actions[0].dest)
    if not isinstance(value, Unset):
        return Setting(name, value, "command line")
    if text := environment.get(variable(name)):
        secret = name in SECRETS
        return Setting(name, from_text(actions[0], text, variable(name), secret), "environment", variable(name))
    default = value.default
    if isinstance(default, str) and callable(actions[0].type):
        default = actions[0].type(default)  # as argparse does
    return Setting(name, default, "default")


def _paths(layers: Mapping[str, Setting], environment: Mapping[str, str]) -> list[str]:
    """The configuration files to read, the strongest last."""
    if "config" not in layers:
        return []
    given, none = layers["config"], layers["no_config"]
    if none.value and _STRENGTH.index(none.origin) >= _STRENGTH.index(given.origin):
        return []
    if given.value:
        return list(given.value)
    path = default_path(environment)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [str(path)]  # reading it will say what is wrong
    return [str(path)]


def _values(file: ConfigFile, known: Mapping[str, list[argparse.Action]]) -> dict[str, Any]:
    """What a file says, as its options take it."""
    values = {}
    for key, value in file.values.items():
        if key not in known or key in _NOT_IN_FILES:
            near = difflib.get_close_matches(key, sorted(known.keys() - _NOT_IN_FILES), n=1, cutoff=0.5)
            cure = f"Did you mean {near[0]!r}?" if near else "`ocria config show` lists all keys."
            raise UsageError(f"unknown key {key!r}", path=file.place(key), cure=cure)
        values[key] = from_file(known[key][0], value, key, file.place(key), secret=key in SECRETS)
    return values


def _exclude(parser: Parser, own: Mapping[str, list[argparse.Action]], layers: dict[str, Setting]) -> None:
    """Of options that exclude each other the strongest place decides, and the others fall back to their defaults."""
    names = {actions[0].dest: name for name, actions in own.items()}
    strict = [{names[dest] for dest in group if dest in names} for group in parser.exclusive()]
    for group in [*_EXCLUSIVE, *strict]:
        said = [layers[name] for name in group if name in layers and layers[name].origin != "default"]
        said = [setting for setting in said if setting.value not in _EXCLUDES_NOTHING]
        if len(said) < 2:
            continue
        strongest = max(_STRENGTH.index(setting.origin) for setting in said)
        for setting in said:
            if _STRENGTH.index(setting.origin) < strongest:
                layers[setting.name] = Setting(setting.name, _default(own[setting.name]), "default")
        left = sorted(setting.name for setting in said if _STRENGTH.index(setting.origin) == strongest)
        if group in strict and len(left) > 1:
            raise UsageError(f"{' and '.join(left)} exclude each other, and the {_STRENGTH[strongest]} sets both")


def _default(actions: list[argparse.Action]) -> Any:
    default = actions[0].default
    return default.default if isinstance(default, Unset) else default
