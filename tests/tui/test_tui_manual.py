"""docs/tui.md says what there is."""

from pathlib import Path

from ocria_tui.keymap import ACTIONS
from ocria_tui.theme import THEMES

from ocria.cli import build_parser

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "tui.md").read_text(encoding="utf-8")
_NAMES = {"slash": "/", "question_mark": "?"}


def table():
    """The keys as the manual has them."""
    lines = ["| keys | action | what it does |", "|---|---|---|"]
    for action in ACTIONS:
        keys = " ".join(f"`{_NAMES.get(key, key)}`" for key in action.keys.split(","))
        lines.append(f"| {keys} | `{action.name}` | {action.help} |")
    return "\n".join(lines)


def test_the_table_of_keys():
    assert table() in MANUAL, f"the table is now\n{table()}"


def test_options_and_files_that_it_names():
    options = {string for action in build_parser().commands()["tui"].all_options() for string in action.option_strings}
    for option in ("--record", "--replay", "--speed", "--theme", "--keymap", "--no-images", "--ascii", "--plain",
                   "--no-animation", "--output-dir"):  # fmt: skip
        assert option in MANUAL
        assert option in options
    for theme in ("ocria-high-contrast", "ocria-colour-blind"):
        assert theme in MANUAL
        assert theme in {known.name for known in THEMES}


def test_pictures():
    for name in ("docs/tui.svg",):
        picture = ROOT / name
        assert picture.name in MANUAL
        assert name in (ROOT / "README.md").read_text(encoding="utf-8")
        assert picture.read_bytes().startswith(b"<svg")
        assert picture.stat().st_size < 300_000
