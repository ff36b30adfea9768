"""`ocria tui` as a command: its options, and what happens before there is an app."""

import sys

import ocria_tui.run
import pytest
from ocria_tui.plain import must_be_plain

from ocria.batch.options import BatchOptions
from ocria.cli import build_parser, main
from ocria.document.options import ParseOptions


@pytest.fixture
def started(monkeypatch):
    """What the app would be started with."""
    calls = []

    def run(files, options, **named):
        calls.append((list(files), options, named))
        return 3

    monkeypatch.setattr(ocria_tui.run, "run", run)
    return calls


def test_options_come_from_everywhere(started, tmp_path, monkeypatch):
    config = tmp_path / "c.toml"
    config.write_text('dpi = 200\nmode = "text"\ntheme = "nord"\npage-images = false\nbatch = 3\n')
    monkeypatch.setenv("OCRIA_BATCH", "5")
    monkeypatch.setenv("OCRIA_ANIMATION", "no")
    code = main([
        "tui", "a.pdf", "--mode", "model", "b", "--config", str(config), "-f", "md,json", "--draft", "none", "-p", "2-",
        "--record", "r.jsonl", "-r", "--exclude", "x*", "--images", "embed", "--fail-on", "never", "--keymap", "k.toml",
    ])  # fmt: skip
    assert code == 3
    ((files, options, named),) = started
    assert files == ["a.pdf", "b"]
    expected = {"mode": "model", "dpi": 200, "batch": 5, "draft": "none", "pages": "2-", "images": "embed",
                "formats": ("md", "json"), "output_dir": "ocria-out", "recursive": True, "exclude": ["x*"],
                "resume": True, "password": None}  # fmt: skip
    assert {name: options[name] for name in expected} == expected
    assert named == {
        "replay": None, "speed": 1.0, "record": "r.jsonl", "theme": "nord", "keymap": "k.toml", "images": False,
        "ascii_only": False, "animation": False, "plain": False, "fail_on": "never",
    }  # fmt: skip
    ParseOptions(**{name: options[name] for name in options if name in ParseOptions.__dataclass_fields__})
    BatchOptions(**{name: options[name] for name in ("overwrite", "resume", "retry_failed", "page_markers")})


def test_it_has_the_options_of_parse_that_mean_something_here():
    commands = build_parser().commands()
    parse, tui = ({o for a in commands[name].options() for o in a.option_strings} for name in ("parse", "tui"))
    assert parse - tui == {
        "-o", "--output", "--files-from", "-0", "--null", "--dry-run", "-q", "--quiet", "-v", "--verbose", "--progress",
        "--log-file", "--log-format",
    }  # fmt: skip
    assert tui - parse == {
        "--theme", "--keymap", "--no-images", "--ascii", "--no-animation", "--plain", "--replay", "--speed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a.pdf", "--replay", "r.jsonl"], "a recording is shown alone"),
        (["--replay", "r.jsonl", "--record", "s.jsonl"], "a recording is shown alone"),
        (["--speed", "2"], "--speed is that of a replay"),
        (["--replay", "r.jsonl", "--speed", "0"], "--speed must be above 0"),
        (["--replay", "r.jsonl", "--speed", "nan"], "--speed must be above 0"),
        (["-"], "standard input is the keyboard"),
        (["a.pdf", "--dpi", "7"], "dpi must be"),
        (["a.pdf", "-p", "3-1"], "reversed"),
        (["a.pdf", "--quiet"], "unrecognized arguments"),
    ],
)
def test_usage(arguments, told, started, capsys):
    try:
        code = main(["tui", *arguments])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert told in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to read. Name files"),
        (["a.pdf", "--theme", "norrd"], "there is no theme 'norrd'. Did you mean 'nord'?"),
        (["a.pdf", "--theme", "x"], "there is no theme 'x'. There are "),
        (["a.pdf", "--keymap", "none.toml"], "none.toml: the configuration file does not exist"),
    ],
)
def test_what_the_app_refuses_before_it_starts(arguments, told, capsys):
    """No test has a terminal."""
    assert must_be_plain()
    assert main(["tui", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_recording_that_is_not_there(capsys, tmp_path):
    assert main(["tui", "--replay", str(tmp_path / "none.jsonl")]) == 4
    assert "none.jsonl" in capsys.readouterr().err


def test_the_extra_that_is_missing(capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in ("textual", "ocria_tui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["tui", "a.pdf"]) == 7
    assert "Install it with `pip install 'ocria[tui]'`" in capsys.readouterr().err
