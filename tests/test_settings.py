"""Settings: from the command line, the environment, files and defaults, in this order."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ocria.cli import build_parser, main
from ocria.cli.parser import Parser
from ocria.cli.settings import named, parsers, settle, variable
from ocria.config import default_path, read_config
from ocria.errors import UsageError

SECRET = "not-to-be-seen"


def options_of(arguments, environment=None, parser=None):
    """What the command gets of a command line, and its settings by name."""
    top = parser or build_parser()
    options = top.parse_args(arguments)
    settings = settle(options, top, {"HOME": "/nowhere", **(environment or {})})
    return options, {item.name: item for item in settings.items}


def written(tmp_path, text, name="ocria.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def show(*arguments, **environment):
    """`ocria config show --json`, in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OCRIA_")}
    return subprocess.run(
        [sys.executable, "-m", "ocria", "config", "show", "--json", *arguments],
        capture_output=True, text=True, env={**clean, **environment}, timeout=300,
    )  # fmt: skip


def made_parser():
    """A command with every kind of option."""
    top = Parser(prog="top")
    top.set_defaults(quiet=False)
    one = top.add_subparsers().add_parser("one")
    one.add_argument("names", nargs="*")
    one.add_argument("--count", type=int, default=7, help="how many (default: %(default)s)")
    one.add_argument("--seconds", type=float, default="1.5")
    one.add_argument("--kind", choices=("a", "b"), default="a")
    one.add_argument("--level", type=int, choices=(1, 2))
    one.add_argument("--loud", action="store_true")
    one.add_argument("--no-heed", dest="heed", action="store_const", const=False)
    one.add_argument("--include", action="append", default=["x"])
    one.add_argument("--sizes", nargs="+", type=int)
    one.add_argument("-f", "--format", dest="formats", action="extend", type=lambda text: text.split(","))
    group = one.add_mutually_exclusive_group()
    group.add_argument("--resume", dest="resume", action="store_true", default=True)
    group.add_argument("--no-resume", dest="resume", action="store_false")
    other = one.add_mutually_exclusive_group()
    other.add_argument("--left")
    other.add_argument("--right")
    one.add_argument("--config", action="append")
    one.add_argument("--no-config", action="store_true")
    return top


def test_the_first_of_command_line_environment_file_default_holds(tmp_path):
    """Every subset of places, for a random choice of options and values."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(40):
        places = {place: draw.random() < 0.5 for place in ("command line", "environment", "file")}
        values = {place: draw.randrange(1, 5000) for place in places}
        option = draw.choice(["--batch", "--threads", "--draft-rows", "--max-output-tokens"])
        name = option[2:].replace("-", "_")
        key = draw.choice([name, option[2:]])
        path = written(tmp_path, f"mode = 'text'\n{key} = {values['file']}\n" if places["file"] else "")
        arguments = ["parse", "a.pdf", "--config", path]
        arguments += [option, str(values["command line"])] if places["command line"] else []
        environment = {variable(name): str(values["environment"])} if places["environment"] else {}
        options, settings = options_of(arguments, environment)
        origin = next((place for place, given in places.items() if given), "default")
        assert (settings[name].value, settings[name].origin) == (values.get(origin), origin)
        assert getattr(options, name) == values.get(origin)


def test_every_kind_of_option_takes_all_places(tmp_path):
    cases = [
        # name, where it is kept, command line, variable, file, and what they come to
        ("count", "count", ["--count", "3"], "3", "3", 3),
        ("seconds", "seconds", ["--seconds", "2"], "2", "2", 2.0),
        ("kind", "kind", ["--kind", "b"], "b", '"b"', "b"),
        ("level", "level", ["--level", "2"], "2", "2", 2),
        ("loud", "loud", ["--loud"], "yes", "true", True),
        ("heed", "heed", ["--no-heed"], "no", "false", False),
        ("resume", "resume", ["--no-resume"], "0", "false", False),
        ("include", "include", ["--include", "a", "--include", "b"], "a, b", '["a", "b"]', ["a", "b"]),
        ("sizes", "sizes", ["--sizes", "1", "2"], "1,2", "[1, 2]", [1, 2]),
        ("format", "formats", ["-f", "md,json", "-f", "text"], "md,json,text", '["md,json", "text"]',
         ["md", "json", "text"]),
    ]  # fmt: skip
    for name, dest, said, in_variable, in_file, expected in cases:
        path = written(tmp_path, f"{name} = {in_file}\n")
        for arguments, environment, origin in (
            (said, {}, "command line"),
            ([], {variable(name): in_variable}, "environment"),
            (["--config", path], {}, "file"),
        ):
            options, settings = options_of(["one", *arguments], environment, made_parser())
            assert (getattr(options, dest), settings[name].origin) == (expected, origin), (name, origin)
    options, settings = options_of(["one"], {}, made_parser())
    assert (options.count, options.seconds, options.include, options.heed) == (7, 1.5, ["x"], None)
    assert {item.origin for item in settings.values()} == {"default"}
    assert "how many (default: 7)" in made_parser().commands()["one"].format_help()


@pytest.mark.parametrize("word", ["1", "true", "YES", "on", "0", "False", "no", "off"])
def test_words_of_switches(word):
    options, _ = options_of(["parse", "a"], {"OCRIA_COMPILE": word, "OCRIA_GRAPH": word})
    expected = word.lower() in ("1", "true", "yes", "on")
    assert (options.compile, options.graph) == (expected, expected)


def test_an_empty_variable_says_nothing():
    options, settings = options_of(["parse", "a"], {"OCRIA_BATCH": "", "OCRIA_PASSWORD": "", "OCRIA_QUIET": ""})
    assert (options.batch, options.password, options.quiet) == (None, None, False)
    assert settings["batch"].origin == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH", "many"), ("BATCH", "1.5"), ("TIMEOUT", "soon"), ("MODE", "fast"), ("COMPILE", "perhaps"),
        ("UNIT", "word"), ("GRAPH", "2"),
    ],
)  # fmt: skip
def test_a_variable_that_its_option_would_not_take(name, value):
    with pytest.raises(UsageError, match=f"OCRIA_{name}") as caught:
        options_of(["parse", "a"], {f"OCRIA_{name}": value})
    assert value in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "line",
    [
        'batch = "4"', "batch = true", "batch = 1.5", "timeout = '1'", "mode = 3", 'mode = "fast"', "compile = 1",
        'compile = "yes"', "model = ['a']", "device = 1979-05-27", "batch = [1]", "unit = ''",
    ],
)  # fmt: skip
def test_a_value_of_a_file_that_its_option_would_not_take(line, tmp_path):
    """Whatever the command is: doctor has no mode."""
    path = written(tmp_path, f"# mine\n\n{line}\n")
    for command in (["parse", "a"], ["doctor"]):
        with pytest.raises(UsageError, match="must be") as caught:
            options_of([*command, "--config", path])
        assert caught.value.path == f"{path}:3"


def test_an_unknown_key_names_the_file_the_line_and_the_nearest_key(tmp_path):
    path = written(tmp_path, "batch = 3\npage-timout = 5\n")
    with pytest.raises(UsageError, match="Did you mean 'page_timeout'") as caught:
        options_of(["parse", "a", "--config", path])
    assert caught.value.path == f"{path}:2"
    for text in ("zzzz = 1", "[parse]\nbatch = 1", "config = ['a']", "no_config = true", "help = true", "run = 1"):
        with pytest.raises(UsageError, match="unknown key"):
            options_of(["parse", "a", "--config", written(tmp_path, text)])


def test_a_key_inside_a_text_is_no_line(tmp_path):
    path = written(tmp_path, 'prompt = """\nbatsh = 1\n"""\nbatsh = 2\n')
    with pytest.raises(UsageError, match="unknown key") as caught:
        options_of(["parse", "a", "--config", path])
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"batch = ", "TOML"), (b"batch = 1\nbatch = 2\n", "TOML"), (b'model = "\xff"', "UTF-8"),
        (b"page-timeout = 1\npage_timeout = 2\n", "twice"),
    ],
)  # fmt: skip
def test_faulty_files(content, said, tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_config(path)
    assert caught.value.path == str(path)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UsageError, match=r"does not exist|cannot be read"):
            options_of(["parse", "a", "--config", str(path)])
    options_of(["parse", "a"], {"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_byte_order_mark_is_no_key(tmp_path):
    path = written(tmp_path, "\ufeffbatch = 3\n")
    assert read_config(path).values == {"batch": 3}


def test_later_files_go_first(tmp_path):
    first = written(tmp_path, "batch = 1\nthreads = 1\n", "1.toml")
    second = written(tmp_path, "batch = 2\n", "2.toml")
    options, settings = options_of(["parse", "a", "--config", first, "--config", second])
    assert (options.batch, options.threads) == (2, 1)
    assert settings["batch"].source == f"{second}:1"
    options, _ = options_of(["parse", "a"], {"OCRIA_CONFIG": f"{second},{first}"})
    assert (options.batch, options.threads) == (1, 1)
    options, _ = options_of(["parse", "a", "--config", second], {"OCRIA_CONFIG": first})
    assert (options.batch, options.threads) == (2, None)


def test_the_usual_file_and_how_to_pass_over_it(tmp_path):
    usual = tmp_path / "ocria" / "config.toml"
    usual.parent.mkdir()
    usual.write_text("batch = 9\n")
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert default_path(home) == usual
    assert options_of(["parse", "a"], home)[0].batch == 9
    for arguments, environment in ((["--no-config"], {}), ([], {"OCRIA_NO_CONFIG": "1"})):
        assert options_of(["parse", "a", *arguments], {**home, **environment})[0].batch is None
    other = written(tmp_path, "threads = 2\n")
    options, _ = options_of(["parse", "a", "--config", other], {**home, "OCRIA_NO_CONFIG": "1"})
    assert (options.batch, options.threads) == (None, 2)
    assert options_of(["parse", "a", "--no-config"], {"OCRIA_CONFIG": other})[0].threads is None


def test_where_the_usual_file_is(tmp_path):
    assert str(default_path({"HOME": "/home/me"})) == "/home/me/.config/ocria/config.toml"
    assert str(default_path({"HOME": "/home/me", "XDG_CONFIG_HOME": "/etc/x"})) == "/etc/x/ocria/config.toml"
    relative = default_path({"HOME": "/home/me", "XDG_CONFIG_HOME": "x"})
    assert str(relative) == "/home/me/.config/ocria/config.toml"


def test_what_is_said_nearer_takes_back_what_it_excludes(tmp_path):
    path = written(tmp_path, f"quiet = true\npassword = '{SECRET}'\n")
    options, _ = options_of(["parse", "a", "--config", path, "--progress", "json", "--password-file", "p"])
    assert (options.quiet, options.progress, options.password, options.password_file) == (False, "json", None, "p")
    options, _ = options_of(["parse", "a", "--config", written(tmp_path, "verbose = true"), "-q"])
    assert (options.quiet, options.verbose) == (True, False)
    options, _ = options_of(["parse", "a", "--password-file", "p"], {"OCRIA_PASSWORD": SECRET})
    assert (options.password, options.password_file) == (None, "p")
    options, _ = options_of(["parse", "a"], {"OCRIA_PASSWORD": SECRET})
    assert options.password == SECRET


def test_what_is_off_excludes_nothing(tmp_path):
    path = written(tmp_path, "progress = 'json'\nverbose = true\n")
    options, _ = options_of(["parse", "a", "--config", path], {"OCRIA_QUIET": "0"})
    assert (options.quiet, options.verbose, options.progress) == (False, True, "json")
    path = written(tmp_path, "quiet = true\n")
    options, _ = options_of(["parse", "a", "--config", path, "--progress", "none"])
    assert (options.quiet, options.progress) == (True, "none")


def test_nobody_s_home(tmp_path, monkeypatch):
    """A user without a folder has no file, and all else works."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert default_path({}).parts[-3:] == (".config", "ocria", "config.toml")
    top = build_parser()
    options = top.parse_args(["parse", "a"])
    assert settle(options, top, {}).files == []


def test_a_usual_file_that_cannot_be_read_is_not_passed_over(tmp_path):
    (tmp_path / "ocria" / "config.toml").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be read"):
        options_of(["parse", "a"], {"XDG_CONFIG_HOME": str(tmp_path)})
    (tmp_path / "file").touch()
    options_of(["parse", "a"], {"XDG_CONFIG_HOME": str(tmp_path / "file")})


def test_groups_of_a_parser_hold_for_all_places(tmp_path):
    path = written(tmp_path, "left = 'a'\n")
    options, _ = options_of(["one", "--config", path, "--right", "b"], {}, made_parser())
    assert (options.left, options.right) == (None, "b")
    with pytest.raises(UsageError, match="left and right exclude each other"):
        options_of(["one"], {"OCRIA_LEFT": "a", "OCRIA_RIGHT": "b"}, made_parser())


def test_config_show_tells_values_and_origins(tmp_path):
    path = written(tmp_path, f"threads = 2\npassword = '{SECRET}'\n")
    result = show("--config", path, "--device", "cpu", OCRIA_BATCH="5")
    assert (result.returncode, result.stderr) == (0, "")
    assert SECRET not in result.stdout
    told = json.loads(result.stdout)
    assert told["files"] == [path]
    found = {name: (item["value"], item["origin"]) for name, item in told["settings"].items()}
    assert found["threads"] == (2, "file")
    assert found["device"] == ("cpu", "command line")
    assert found["batch"] == (5, "environment")
    assert found["verify"] == ("exact", "default")
    assert found["password"] == ("set", "file")
    assert told["settings"]["threads"]["source"] == f"{path}:1"
    assert told["settings"]["batch"]["source"] == told["settings"]["batch"]["variable"] == "OCRIA_BATCH"
    assert "json" not in found


def test_config_show_has_every_option_of_parse():
    shown = set(json.loads(show("--no-config").stdout)["settings"])
    assert shown == set(named(build_parser().commands()["parse"].options()))


def test_config_show_for_people(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OCRIA_PASSWORD", SECRET)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["config", "show", "--compile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line}
    assert rows["password"] == ["set", "environment:", "OCRIA_PASSWORD"]
    assert rows["compile"] == ["true", "command", "line"]
    assert str(tmp_path) in lines[-1]
    assert SECRET not in "".join(lines)


def test_config_path(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "ocria").mkdir()
    (tmp_path / "ocria" / "config.toml").write_text("not TOML at all")
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/ocria/config.toml\n"


def test_a_password_is_in_no_message(tmp_path, capsys):
    assert main(["doctor", "--config", written(tmp_path, "password = 20261130")]) == 2
    said = capsys.readouterr().err
    assert "password must be text" in said
    assert "20261130" not in said


def test_faults_of_settings_end_the_command(tmp_path):
    result = show("--config", written(tmp_path, "bacth = 1"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"ocria: {tmp_path}/ocria.toml:1: unknown key 'bacth'")
    assert "'batch'" in result.stderr
    assert result.stderr.count("\n") == 1
    assert show("--no-config", OCRIA_BATCH="x").returncode == 2


def test_a_fault_of_settings_is_told_as_progress_is(tmp_path, capsys):
    path = written(tmp_path, "bacth = 1")
    assert main(["parse", "a.pdf", "--progress", "json", "--config", path]) == 2
    told = json.loads(capsys.readouterr().err)
    assert (told["type"], told["exit_code"]) == ("error", 2)


def test_names_are_the_same_everywhere():
    """A key means one thing, whichever command it concerns: its option has the same type and choices in all."""
    kinds = {}
    for parser in parsers(build_parser()):
        for name, actions in named(parser.options()).items():
            first = actions[0]
            kind = (first.type, tuple(first.choices or ()), type(first).__name__, first.nargs)
            assert kinds.setdefault(name, kind) == kind, name


DOCUMENTATION = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_file_of_the_documentation_is_one(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```$", DOCUMENTATION, re.M | re.S)
    options, settings = options_of(["parse", "a", "--config", written(tmp_path, text)])
    assert options.page_timeout == 120.0
    assert len(read_config(tmp_path / "ocria.toml").values) == sum(s.origin == "file" for s in settings.values()) > 3


def test_options_of_the_documentation_exist():
    text = DOCUMENTATION
    known = {variable(name) for parser in parsers(build_parser()) for name in named(parser.options())}
    for found in set(re.findall(r"OCRIA_[A-Z_]*[A-Z]", text)):
        assert found in known, found
    options = [action for parser in parsers(build_parser()) for action in parser.all_options()]
    strings = {string for action in options for string in action.option_strings}
    for found in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)):
        assert found in strings, found
