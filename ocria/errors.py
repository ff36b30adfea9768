"""Typed errors, each with the exit code of the command line.

A message says what is wrong; `path` names the file and `cure` says in one sentence what helps. The exit
codes 1 (a document failed), 3 (some pages failed) and 130 (interrupted) describe a whole run and belong to
no single error.
"""

from __future__ import annotations

from os import PathLike

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_PARTIAL = 3
EXIT_INTERRUPTED = 130

OUT_OF_TIME = "the time for the document ran out"
"""What pages and errors say once the time limit of a document is over."""


class OcriaError(Exception):
    """Base of all errors that ocria raises on purpose.

    Args:
        message: what is wrong, without the path.
        path: the file or folder it is about.
        cure: one sentence that says what the user can do.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, path: str | PathLike[str] | None = None, cure: str | None = None):
        super().__init__(message)
        self.message = message
        self.path = None if path is None else str(path)
        self.cure = cure

    def __str__(self) -> str:
        head = self.message if self.path is None else f"{self.path}: {self.message}"
        if self.cure is None:
            return head
        return f"{head} {self.cure}" if head.endswith("?") else f"{head}. {self.cure}"


class UsageError(OcriaError):
    """An argument or option that cannot be met, such as a page the document does not have."""

    exit_code = 2


class InputError(OcriaError):
    """An input that is missing, unreadable, corrupt or of an unsupported kind."""

    exit_code = 4


class CrashError(InputError):
    """An input over which the process that reads it crashed, twice."""


class EncryptedError(OcriaError):
    """An input that needs a password, or another one."""

    exit_code = 5


class EncryptionUnsupportedError(EncryptedError):
    """An input that is encrypted in a way that no password given to ocria opens."""


class OutputError(OcriaError):
    """An output that cannot be written or exists already."""

    exit_code = 6


class EngineError(OcriaError):
    """The engine, its model or its device is not available."""

    exit_code = 7


class CheckpointError(EngineError):
    """Weights that are missing, unexpected, misshapen or unreadable."""


class ConfigError(EngineError):
    """A model configuration with unknown, missing or contradictory settings."""


class ModelNotFoundError(EngineError):
    """No model under the given folder or name."""


class MissingDependencyError(EngineError):
    """A package that this feature needs is not installed."""


class TimeoutExceeded(OcriaError):
    """A time limit set by the user passed before the work was done."""

    exit_code = 8
