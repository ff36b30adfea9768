"""`ocria completion`: scripts for shells, made from the parser, so that they know every option there is."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ocria.cli.convert import is_switch
from ocria.cli.output import to_standard_output
from ocria.cli.parser import Parser
from ocria.errors import EXIT_OK
from ocria.progress import Reporter

_FILES = {"FILE", "PATH", "INPUT", "FILES", "SOURCE", "SOURCES", "INPUTS"}
_FOLDERS = {"FOLDER", "DIR", "DIRECTORY"}
_EPILOG = """\
examples:
  eval "$(ocria completion bash)"
      In ~/.bashrc, or for this shell alone.
  ocria completion bash > ~/.local/share/bash-completion/completions/ocria
      For all shells to come; bash-completion loads it when it is needed.
  ocria completion zsh > "${fpath[1]}/_ocria"
      Before `compinit` is called.
  ocria completion fish > ~/.config/fish/completions/ocria.fish
"""


@dataclass(frozen=True, slots=True)
class Option:
    """An option as a shell needs it."""

    strings: tuple[str, ...]
    help: str
    takes: str | None
    """None for a switch, else `choice`, `file`, `folder` or `value`."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its options; `words` is its name and those of the commands above it."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    takes: str | None
    """What its arguments are: as in `Option`, or None where there are none."""
    choices: tuple[str, ...]
    """Of its arguments, or the names of the commands below it."""
    below: dict[str, str]
    """Names of these commands, with one line about each."""


def add_completion(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description="Print a script that completes commands, options, values and names of files.",
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=tuple(_WRITERS), help="bash, zsh or fish")
    parser.set_defaults(run=_completion)


def describe(parser: Parser, words: tuple[str, ...] = ("ocria",), told: str = "") -> Iterator[Command]:
    """A parser's commands, the parser itself first."""
    takes, choices = None, ()
    for argument in parser.arguments():
        takes, choices = _takes(argument), _choices(argument)
    below = parser.command_help()
    options = tuple(
        Option(tuple(a.option_strings), _brief(a), None if is_switch(a) else _takes(a), _choices(a))
        for a in parser.all_options()
    )
    yield Command(words, told, options, takes, choices or tuple(below), below)
    for name, command in parser.commands().items():
        yield from describe(command, (*words, name), below.get(name, ""))


def bash(commands: list[Command]) -> str:
    """A script that needs no more than bash 3.2, without bash-completion."""
    steps = [f'"{" ".join(c.words)}") command="{" ".join(c.words)}" ;;' for c in commands[1:]]
    values, words = [], []
    for command in commands:
        name = " ".join(command.words)
        for option in command.options:
            if option.takes is not None:
                cases = "|".join(f'"{name} {string}"' for string in option.strings)
                values.append(f"{cases}) {_bash_value(option.takes, option.choices)}; return ;;")
        strings = " ".join(string for option in command.options for string in option.strings)
        words.append(f'"{name}") options={shlex.quote(strings)}; {_bash_value(command.takes, command.choices)} ;;')
    return f"""\
# bash completion of ocria
_ocria() {{
    local current previous command options word i
    current="${{COMP_WORDS[COMP_CWORD]}}"
    previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    # `--option=value` comes in three words.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    command="ocria"
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
            {_joined(steps, 12)}
        esac
    done
    COMPREPLY=()
    case "$command $previous" in
        {_joined(values, 8)}
    esac
    case "$command" in
        {_joined(words, 8)}
    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    fi
}}
_ocria_files() {{
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$current"))
}}
complete -F _ocria ocria
"""


def zsh(commands: list[Command]) -> str:
    """A script for zsh's own completion system."""
    functions = "\n".join(_zsh_function(command) for command in commands)
    return f"""\
#compdef ocria
# zsh completion of ocria
{functions}
if [[ "${{funcstack[1]}}" == "_ocria" ]]; then
    _ocria "$@"
else
    compdef _ocria ocria
fi
"""


def fish(commands: list[Command]) -> str:
    """A script of fish's `complete`."""
    lines = ["# fish completion of ocria", "complete -c ocria -f"]
    for command in commands:
        seen = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
        none = [f"not __fish_seen_subcommand_from {' '.join(command.below)}"] if command.below else []
        where = shlex.quote("; and ".join([*seen, *none])) if seen or none else "true"
        for name, told in command.below.items():
            lines.append(f"complete -c ocria -n {where} -a {name} -d {shlex.quote(told)}")
        if not command.below and command.takes in ("file", "folder"):
            lines.append(f"complete -c ocria -n {where} -F")
        elif not command.below and command.choices:
            lines.append(f"complete -c ocria -n {where} -a {shlex.quote(' '.join(command.choices))}")
        lines += [f"complete -c ocria -n {where} {_fish_option(option)}" for option in command.options]
    return "\n".join(lines) + "\n"


def _completion(options: argparse.Namespace, reporter: Reporter) -> int:
    to_standard_output(_WRITERS[options.shell](list(describe(options.top))))
    return EXIT_OK


def _choices(action: argparse.Action) -> tuple[str, ...]:
    """What a value may be. An option that reads several at a time names them as its `completions`."""
    return tuple(map(str, action.choices or getattr(action, "completions", ())))


def _takes(action: argparse.Action) -> str:
    """What a value is, as far as it can be told from the parser."""
    if _choices(action):
        return "choice"
    names = action.metavar if isinstance(action.metavar, str) else (action.metavar or (action.dest,))[0]
    shown = re.split(r"[^A-Z]+", names.upper())
    return "file" if _FILES & set(shown) else "folder" if _FOLDERS & set(shown) else "value"


def _brief(action: argparse.Action) -> str:
    """The start of a help text, without a default and what else is in brackets."""
    text: str = getattr(action, "told", action.help) or ""
    return re.split(r" \(|; ", " ".join(text.replace("%%", "%").split()))[0]


def _joined(lines: list[str], indent: int) -> str:
    return ("\n" + " " * indent).join(lines)


def _bash_value(takes: str | None, choices: tuple[str, ...]) -> str:
    if choices:
        return f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(map(str, choices)))} -- "$current"))'
    return {"file": "_ocria_files -f", "folder": "_ocria_files -d"}.get(takes or "", ":")


def _zsh_function(command: Command) -> str:
    name = "_" + "_".join(command.words)
    specs = [_zsh_option(option) for option in command.options]
    if not command.below:
        specs += [] if command.takes is None else [f"'*: :{_zsh_values(command.takes, command.choices)}'"]
        return f"{name}() {{\n    _arguments -s -S {_continued(specs)}\n}}"
    specs += ["'1: :->command'", "'*:: :->rest'"]
    described = " ".join(shlex.quote(f"{word}:{told.replace(':', ' ')}") for word, told in command.below.items())
    cases = [f"{word}) {name}_{word} ;;" for word in command.below]
    return f"""\
{name}() {{
    local context state state_descr line
    typeset -A opt_args
    local -a names
    names=({described})
    _arguments -C {_continued(specs)}
    case $state in
        command) _describe command names ;;
        rest) case ${{line[1]}} in
            {_joined(cases, 12)}
        esac ;;
    esac
}}"""


def _continued(words: list[str]) -> str:
    """Words of a command, one in a line."""
    return " \\\n        ".join(words)


def _zsh_option(option: Option) -> str:
    """One word for `_arguments`; strings that mean the same exclude each other."""
    told = re.sub(r"([\[\]:\\])", r"\\\1", option.help).replace("'", "’")
    value = "" if option.takes is None else f":value:{_zsh_values(option.takes, option.choices)}"
    marks = {string: string if option.takes is None else f"{string}{'=' if string[:2] == '--' else '+'}"
             for string in option.strings}  # fmt: skip
    first = f"'({' '.join(option.strings)})'" if len(option.strings) > 1 else ""
    if len(marks) == 1:
        return f"'{next(iter(marks.values()))}[{told}]{value}'"
    return f"{first}{{{','.join(marks.values())}}}'[{told}]{value}'"


def _zsh_values(takes: str, choices: tuple[str, ...]) -> str:
    if choices:
        return f"({' '.join(map(str, choices))})"
    return {"file": "_files", "folder": "_files -/"}.get(takes, " ")


def _fish_option(option: Option) -> str:
    parts = [f"-s {s[1:]}" if len(s) == 2 else f"-l {s[2:]}" for s in option.strings]
    if option.choices:
        parts.append(f"-x -a {shlex.quote(' '.join(map(str, option.choices)))}")
    elif option.takes is not None:
        parts.append("-r -F" if option.takes in ("file", "folder") else "-x")
    return " ".join([*parts, "-d", shlex.quote(option.help)])


_WRITERS = {"bash": bash, "zsh": zsh, "fish": fish}
