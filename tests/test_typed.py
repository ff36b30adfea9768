"""The types of the public API: complete, and of use to whoever writes a script."""

import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import ocria
from ocria.document.option_types import OptionTypes
from ocria.document.options import ParseOptions

ROOT = Path(__file__).parents[1]

RIGHT = """
from pathlib import Path

import ocria
from ocria.events import Event, PageDone


def told(event: Event) -> None:
    if isinstance(event, PageDone):
        print(event.page + 1, event.markdown.upper())


document: ocria.Document = ocria.parse(Path("a.pdf"), pages=[1, 2], mode="text", timeout=3, on_event=told)
widths: list[float] = [page.width for page in document.pages]
boxes: list[tuple[float, float, float, float]] = [block.box for page in document.pages for block in page.blocks]
print(document.markdown + document.to_json(), document.status, widths, boxes)
try:
    for event in ocria.stream(b"...", password="x", batch=2):
        told(event)
except ocria.OcriaError as error:
    code: int = error.exit_code
    cure: str | None = error.cure
control = ocria.Control()
control.cancel_page("a.pdf", 3)
documents: list[ocria.Document] = list(ocria.parse_many(["a.pdf", "b.pdf"], images="embed", cancel=control))
"""
WRONG = """
import ocria

ocria.parse("a.pdf", batch="many")
ocria.parse("a.pdf", colour="red")
ocria.parse(3)
number: int = ocria.parse("a.pdf").markdown
ocria.prase("a.pdf")
ocria.parse("a.pdf").pages[0].boxes
for event in ocria.stream("a.pdf"):
    event.page
ocria.parse_many(["a.pdf"], timeout="soon")
ocria.Control().cancel_page("a.pdf", "3")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    pytest.importorskip("mypy")
    return tmp_path_factory.mktemp("mypy")


def check(cache, *files):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", cache, *files],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def test_the_public_api_has_types_that_hold(cache):
    result = check(cache)
    assert result.returncode == 0, result.stdout + result.stderr


def test_scripts_are_checked(cache, tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text(WRONG)
    result = check(cache, right, wrong)
    assert result.returncode == 1
    faults = [line.split(":")[:2] for line in result.stdout.splitlines() if ": error:" in line]
    lines = {int(line) for name, line in faults if Path(name).name == "wrong.py"}
    expected = {number for number, line in enumerate(WRONG.splitlines(), 1) if line.strip()}
    assert lines == expected - {2, 10}, result.stdout
    assert all(Path(name).name == "wrong.py" for name, _ in faults), result.stdout


def test_the_marker_of_typed_packages_is_there():
    assert (Path(ocria.__file__).parent / "py.typed").is_file()


def test_keyword_arguments_are_the_fields_of_the_options():
    fields = typing.get_type_hints(ParseOptions)
    assert typing.get_type_hints(OptionTypes) == fields
    assert list(OptionTypes.__annotations__) == [field.name for field in dataclasses.fields(ParseOptions)]
    assert not OptionTypes.__required_keys__


def test_every_public_name_has_types():
    """Arguments and results of all functions, and fields of all classes."""
    for name in set(ocria.__all__) - {"__version__"}:
        value = getattr(ocria, name)
        functions = [value] if not isinstance(value, type) else [
            item for key, item in vars(value).items() if callable(item) and not key.startswith("_")
        ]  # fmt: skip
        for function in functions:
            annotated = function.__annotations__
            code = function.__code__
            count = code.co_argcount + code.co_kwonlyargcount
            arguments = set(code.co_varnames[:count]) - {"self", "cls"}
            assert arguments | {"return"} <= set(annotated), (name, function.__name__)
