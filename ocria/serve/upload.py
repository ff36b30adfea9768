"""Files that clients send, kept where no other program finds them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from ocria.serve.problems import Problem

# What is larger lies in a file without a name, which is gone with the server however that ends.
_IN_MEMORY = 1 << 20
_MOST_FIELDS = 32
_FIELD_BYTES = 1 << 16
_NAME_CHARACTERS = 200


class Upload:
    """A file of a client: something to read, under the name that the client gave it. No path of the server."""

    def __init__(self, file: IO[bytes], name: str | None):
        self.name = _label(name)
        self._file, self._lock = file, threading.Lock()

    @classmethod
    def of_bytes(cls, content: bytes, name: str) -> Upload:
        file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115, closed with the job
        file.write(content)
        return cls(file, name)

    def read(self) -> bytes:
        """All of it, each time. Raises Problem: it was deleted meanwhile."""
        with self._lock:
            if self._file.closed:
                raise Problem(404, "not_found", "the job is gone")
            self._file.seek(0)
            return self._file.read()

    def close(self) -> None:
        """Delete it."""
        with self._lock:
            self._file.close()


@dataclass(frozen=True, slots=True)
class Received:
    """The body of a request, with the fields of its query below those of the form."""

    fields: dict[str, str]
    upload: Upload


async def read_file(request: Request) -> Received:
    """Read a body that holds a file: multipart with one part `file`, or the file itself.

    Raises:
        Problem: malformed, no file.
    """
    fields = dict(request.query_params)
    form = request.headers.get("content-type", "").lower().startswith("multipart/form-data")
    return await (_read_form if form else _read_raw)(request, fields)


async def _read_form(request: Request, fields: dict[str, str]) -> Received:
    try:
        form = await request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=_FIELD_BYTES)
    except (MultiPartException, HTTPException) as error:
        told = error.message if isinstance(error, MultiPartException) else error.detail
        raise Problem(400, "bad_request", f"the form cannot be read: {told}") from None
    upload = None
    for name, value in form.multi_items():
        if not isinstance(value, UploadFile):
            fields[name] = value
        elif name == "file":
            upload = Upload(value.file, value.filename or fields.get("name"))
        else:
            await form.close()
            raise Problem(400, "bad_request", f"a file came as {name!r}", "Send it as the part `file`")
    if upload is None:
        raise Problem(400, "bad_request", "the form has no file", "Send it as the part `file`")
    return Received(fields, upload)


async def _read_raw(request: Request, fields: dict[str, str]) -> Received:
    file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115, closed with the job
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            file.write(chunk)
    except BaseException:
        file.close()
        raise
    if not size:
        file.close()
        raise Problem(400, "bad_request", "the body is empty", "Send a file, or a form with the part `file`")
    return Received(fields, Upload(file, fields.get("name")))


def _label(name: str | None) -> str:
    """A name without folders and control characters."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable()).strip(" .")[:_NAME_CHARACTERS] or "document"
