"""Options that commands share and that are not about the engine: what is told, the log, the configuration."""

from __future__ import annotations

import argparse

from ocria.progress import KINDS, LOG_FORMATS


def add_common(parser: argparse.ArgumentParser) -> None:
    """For commands that run for a while: how much is told and in which form, the log, the configuration."""
    told = parser.add_argument_group("messages, on standard error")
    told.add_argument("-q", "--quiet", action="store_true", help="only errors")
    told.add_argument(
        "-v", "--verbose", action="store_true", help="routes, timings, what the engine uses, warnings of all libraries"
    )
    told.add_argument(
        "--progress",
        choices=KINDS,
        default="auto",
        help="live bars, plain lines, one JSON object an event, or none (default: bars on a terminal, plain lines on "
        "one that cannot redraw or in CI, else none)",
    )
    told.add_argument(
        "--log-file", metavar="FILE", help="append everything that happens to FILE, whatever -q and -v say"
    )
    told.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="of the log (default: text)")
    add_configuration(parser)


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Which configuration files hold for a command."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        help="TOML file with options; of several the later one holds (default: "
        "$XDG_CONFIG_HOME/ocria/config.toml or ~/.config/ocria/config.toml, if it is there)",
    )
    group.add_argument("--no-config", action="store_true", help="read no configuration file")


def add_json(parser: argparse.ArgumentParser) -> None:
    """For commands that print a report."""
    parser.add_argument("--json", action="store_true", help="as JSON")
