"""The parser of the command line: short usage, help that fits 80 columns, and a hint where a word is misspelt."""

from __future__ import annotations

import argparse
import contextlib
import copy
import difflib
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

from ocria.cli.output import to_standard_output

_WIDTH = 80


class Unset:
    """Stands for an option that the command line does not name, so that `settings` can tell. Shows as its default."""

    def __init__(self, default: Any):
        self.default = default

    def __str__(self) -> str:
        return str(self.default)

    def __copy__(self) -> list[Any]:
        """What a repeatable option is added to: the command line replaces a list, it does not lengthen it."""
        return []


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Description and epilog as they are written, the rest filled to at most 80 columns."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=26, width=min(_WIDTH, shutil.get_terminal_size().columns) - 1)


class Parser(argparse.ArgumentParser):
    """As argparse has it, but for the looks of help and errors.

    After parsing, the namespace has `parser`, that of the command, and each option that was not given is `Unset`.
    """

    def __init__(self, *args: Any, **options: Any):
        # Shortened options would change their meaning with every option that is added.
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": Formatter, **options})

    def options(self) -> Iterator[argparse.Action]:
        """What takes a value or is a switch; neither arguments without a name nor help and version."""
        for action in self._actions:
            if action.option_strings and action.default != argparse.SUPPRESS and action.dest != argparse.SUPPRESS:
                yield action

    def all_options(self) -> Iterator[argparse.Action]:
        """Those of `options`, help and version as well, in the order of the help."""
        return (action for action in self._actions if action.option_strings)

    def arguments(self) -> Iterator[argparse.Action]:
        """What is told by its place: inputs."""
        for action in self._actions:
            if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
                yield action

    def commands(self) -> dict[str, Parser]:
        """The commands below this one by name."""
        return {} if (action := self._commands()) is None else dict(action.choices)

    def command_help(self) -> dict[str, str]:
        """One line about each command below this one."""
        action = self._commands()
        return {} if action is None else {choice.dest: choice.help or "" for choice in action._choices_actions}

    def exclusive(self) -> list[set[str]]:
        """Groups of options that exclude each other, by where they are kept."""
        return [{action.dest for action in group._group_actions} for group in self._mutually_exclusive_groups]

    def adopt(self, other: Parser) -> None:
        """Take the options of another parser that this one has not, without a word in the help."""
        taken = {string for action in self.all_options() for string in action.option_strings}
        for action in other.options():
            if not taken & set(action.option_strings):
                own = copy.copy(action)
                own.told, own.help = own.help, argparse.SUPPRESS  # completion tells it
                self._add_action(own)
        self._mutually_exclusive_groups.extend(other._mutually_exclusive_groups)

    def share(self, other: Parser, left_out: Collection[str]) -> None:
        """Take the groups of another parser with their options, but for those kept under names in `left_out` and those
        that this one has."""
        taken = {string for action in self.all_options() for string in action.option_strings}
        for group in other._action_groups:
            actions = [a for a in group._group_actions if a.option_strings and a.dest not in left_out]
            actions = [action for action in actions if not taken & set(action.option_strings)]
            if actions:
                own = self.add_argument_group(group.title, group.description)
                for action in actions:
                    own._add_action(copy.copy(action))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        for action in self.options():
            if not isinstance(action.default, Unset):
                action.default = Unset(action.default)
        parsed, rest = super().parse_known_args(args, namespace)
        if not hasattr(parsed, "parser"):
            parsed.parser = self
        return parsed, rest

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            known = [string for action in parsed.parser.all_options() for string in action.option_strings]
            hint = nearest(next((word for word in rest if word.startswith("-")), "").split("=")[0], known)
            parsed.parser.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return parsed

    def format_usage(self) -> str:
        return self._brief().format_help()

    def format_help(self) -> str:
        formatter = self._brief()
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.format_usage()}{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and the version go where data goes; whoever has seen enough of them may close the pipe."""
        if file is not None and file is sys.stdout:
            with contextlib.suppress(BrokenPipeError):
                to_standard_output(message)
        else:
            super()._print_message(message, file)

    def _brief(self) -> argparse.HelpFormatter:
        formatter = self._get_formatter()
        places = [formatter._format_args(action, action.dest) for action in self.arguments()]
        if (below := self._commands()) is not None:
            places.append(f"{formatter._format_args(below, 'COMMAND').split()[0]} ...")
        formatter.add_usage(" ".join(["%(prog)s", "[OPTIONS]", *places]), [], [])
        return formatter

    def _commands(self) -> Any:
        return next((action for action in self._actions if isinstance(action, argparse._SubParsersAction)), None)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{nearest(str(value), known)} "
                                                 f"(choose from {', '.join(known)})")  # fmt: skip


def nearest(word: str, known: Sequence[str]) -> str:
    """`, did you mean --mode?` where a known word is near, else nothing."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f", did you mean {near[0]}?" if near else ""
