"""The `ocria` command in the process of the tests: what importing everything again would take is saved."""

import io
import os
import signal
import subprocess
import sys
from unittest import mock

import laid_out_once  # noqa: F401

from ocria.cli import main


def called(*arguments, stdin=b"", cwd=None, **environment):
    """Run `ocria` with these arguments, environment variables and bytes of standard input; documents are opened in
    this process, unless `--jobs` says otherwise. Returns a CompletedProcess with the bytes of both outputs."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    streams, folder = (sys.stdin, sys.stdout, sys.stderr), os.getcwd()
    sys.stdin, sys.stdout = (io.TextIOWrapper(io.BytesIO(data)) for data in (stdin, b""))
    sys.stderr = io.TextIOWrapper(io.BytesIO(), errors="backslashreplace")  # as Python has it
    try:
        os.chdir(cwd or folder)
        with mock.patch.dict(os.environ, {"OCRIA_JOBS": "0", **environment}):
            try:
                code = main([str(argument) for argument in arguments])
            except SystemExit as end:
                code = end.code
        told = []
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            told.append(stream.buffer.getvalue())
        return subprocess.CompletedProcess(arguments, code, *told)
    finally:
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, handler in before:
            signal.signal(number, handler)
