"""Threads sleep soon, unless the user wants otherwise."""

import os
import subprocess
import sys

import pytest

SAYS = "import os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('OMP_WAIT_POLICY'))"


def told(first, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", f"{first}; {SAYS}"]
    result = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=True, timeout=120)
    return result.stdout.split()[-2:]


COMMAND = "from ocria.cli import main; main(['config', 'path'])"
READER = (
    "import contextlib, sys\n"
    "from ocria.document.options import ParseOptions\n"
    "from ocria.document.reader import Reader\n"
    "assert 'torch' not in sys.modules\n"
    "with contextlib.suppress(Exception): Reader(ParseOptions(model='/none'))\n"
    "assert 'torch' in sys.modules\nTrue"
)


@pytest.mark.parametrize("first", [COMMAND, READER], ids=["command", "reader"])
def test_it_is_set_before_torch_is_loaded(first):
    assert told(first) == ["1000", "None"]


@pytest.mark.parametrize("variables", [{"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "active"}], ids=str)
def test_what_the_user_set_stays(variables):
    expected = [variables.get("GOMP_SPINCOUNT", "None"), variables.get("OMP_WAIT_POLICY", "None")]
    assert told(COMMAND, **variables) == expected
