"""What went wrong, as an answer: a status and JSON whose shape clients of OpenAI know."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from ocria.errors import (
    EncryptedError,
    EngineError,
    InputError,
    OcriaError,
    TimeoutExceeded,
    UsageError,
)

_KINDS: tuple[tuple[type[OcriaError], int, str], ...] = (
    (UsageError, 422, "usage_error"),
    (EncryptedError, 422, "encrypted_error"),
    (InputError, 422, "input_error"),
    (TimeoutExceeded, 504, "timeout"),
    (EngineError, 503, "engine_error"),
)


class Problem(Exception):
    """An answer that is no result.

    Args:
        status: of HTTP.
        kind: one word that programs look at.
        message: for people; it names no path of the server.
        cure: one sentence that says what helps.
        param: the field it is about.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        cure: str | None = None,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.kind, self.message, self.cure = status, kind, message, cure
        self.param, self.headers = param, headers or {}

    def to_dict(self) -> dict[str, Any]:
        """The value of `error` in the answer."""
        return {
            "type": self.kind, "message": self.message, "cure": self.cure, "code": self.kind, "param": self.param,
        }  # fmt: skip

    def response(self) -> JSONResponse:
        return JSONResponse({"error": self.to_dict()}, self.status, headers=self.headers)


def problem_of(error: Exception) -> Problem:
    """An exception as an answer. Of what no client can help nothing is told but that it happened."""
    if isinstance(error, Problem):
        return error
    for kind, status, name in _KINDS:
        if isinstance(error, kind):
            # The path of an input is the client's own name of it; that of an engine's fault is the server's.
            named = error.path is not None and not isinstance(error, EngineError)
            cure = None if isinstance(error, EngineError) else error.cure
            return Problem(status, name, f"{error.path}: {error.message}" if named else error.message, cure)
    if isinstance(error, OcriaError):
        return Problem(500, "internal_error", error.message)
    return Problem(500, "internal_error", "the server failed; its log says more")
