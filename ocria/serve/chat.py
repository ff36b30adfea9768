"""What a client of OpenAI sends and gets: images in, Markdown out.

Source of the shapes: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ocria.document.options import ParseOptions
from ocria.document.result import BLANK, OK
from ocria.serve.asked import Asked
from ocria.serve.desk import Desk
from ocria.serve.job import CANCELLED, Job
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem
from ocria.serve.upload import Upload

_UNMET = ("tools", "functions", "logprobs", "top_logprobs", "audio")
"""Fields that would change an answer in a way that reading a page cannot."""
_MOST_VALUES = 100_000
"""Values in a body. Each takes dozens of times its text in memory; an image is one."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A request for a completion."""

    model: str
    uploads: tuple[Upload, ...]
    stream: bool
    include_usage: bool
    max_tokens: int | None


def chat_of(body: bytes, names: Sequence[str], limits: ServeOptions) -> Chat:
    """Read a request. `names`: of the model, its own first.

    Raises:
        Problem: malformed, for another model, without an image, or with what cannot be met.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise Problem(413, "too_large", f"the body has more than {_MOST_VALUES} values")
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "bad_request", "the body is no JSON") from None
    if not isinstance(told, dict):
        raise Problem(400, "bad_request", "the body must be a JSON object")
    model = told.get("model", names[0])
    if model not in names:
        cure = f"There is {', '.join(names)}"
        raise Problem(404, "not_found", f"there is no model {str(model)[:100]!r}", cure, param="model")
    for name, value in told.items():
        if value and (name in _UNMET or name.startswith("guided_")):
            raise _unmet(name)
    if told.get("n") not in (None, 1):
        raise _unmet("n")
    form = told.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise _unmet("response_format")
    options = told.get("stream_options")
    return Chat(
        model=model,
        uploads=_images(told.get("messages"), limits),
        stream=told.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        max_tokens=_max_tokens(told),
    )


def job_of(chat: Chat, base: ParseOptions, limits: ServeOptions) -> Job:
    """The job that answers a request. The image is the page, so its pixels are read."""
    return Job(chat.uploads, Asked("md", replace(base, mode="model"), limits.timeout))


class Answer:
    """What a job says to a request, whole or in chunks."""

    def __init__(self, chat: Chat, job: Job, desk: Desk):
        self._chat, self._job, self._desk = chat, job, desk
        self._id, self._created = f"chatcmpl-{job.id}", int(time.time())
        self._cut = False

    async def whole(self) -> dict[str, Any]:
        """The answer without streaming. Raises Problem."""
        text = "".join([piece async for piece in self._pieces()])
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason()}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events; a problem is one of them."""
        yield self._chunk({"role": "assistant", "content": ""})
        try:
            async for piece in self._pieces():
                yield self._chunk({"content": piece})
        except Problem as problem:
            yield _data({"error": problem.to_dict()})
            return
        yield self._chunk({}, self._reason())
        if self._chat.include_usage:
            yield _data({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    async def _pieces(self) -> AsyncIterator[str]:
        """The Markdown of the pages as they are done, line by line. Raises Problem."""
        job, log, after = self._job, self._job.log, 0
        some = False
        while True:
            ended = log.ended
            for told in log.after(after):
                after = told.number or after
                if told.name == "page_done":
                    lines = _lines(json.loads(told.data)["markdown"])
                    for line in ["\n", *lines] if lines and some else lines:
                        yield line
                    some = some or bool(lines)
            if self._chat.max_tokens is not None and job.tokens_out > self._chat.max_tokens and not ended:
                self._cut = True
                self._desk.cancel(job)
            if ended:
                break
            if not log.after(after):
                await log.changed()
        if self._cut and job.state == CANCELLED:
            for line in _lines(_unfinished(job)):
                yield line
        elif job.problem is not None:
            raise job.problem

    def _reason(self) -> str:
        """`length` where something is missing."""
        whole = all(page.status in (OK, BLANK) for page in self._job.done_pages)
        return "stop" if whole and not self._cut else "length"

    def _usage(self) -> dict[str, int]:
        prompt, written = self._job.tokens_in, self._job.tokens_out
        return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._chat.model}

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _data({**self._head("chat.completion.chunk"), "choices": [choice]})


def _lines(text: str) -> list[str]:
    """Lines with their ends, without empty ones around them."""
    return f"{text}\n".splitlines(keepends=True) if (text := text.strip("\n")) else []


def _unfinished(job: Job) -> str:
    """What had been read of the page that was cut short, in the order of its lines."""
    units: dict[int, str] = {}
    for told in job.log.after(0):
        if told.name == "text_delta":
            data = json.loads(told.data)
            units[data["unit"]] = units.get(data["unit"], "") + data["text"]
    return "\n".join(text for _, text in sorted(units.items()))


def _data(told: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(told, ensure_ascii=False)}\n\n".encode()


def _images(messages: Any, limits: ServeOptions) -> tuple[Upload, ...]:
    """The images of the last message of the user that has some: what is asked in words may follow in another."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Problem(400, "bad_request", "messages must be a list of messages", param="messages")
    contents = [message.get("content") for message in reversed(messages) if message.get("role") == "user"]
    found = ([part for part in parts if _is_image(part)] for parts in contents if isinstance(parts, list))
    urls = [_url(part) for part in next(filter(None, found), [])]
    if not urls:
        cure = 'Send {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}'
        raise Problem(400, "bad_request", "no message of the user has an image", cure, param="messages")
    if len(urls) > limits.max_pages:
        raise Problem(413, "too_large", f"more than {limits.max_pages} images")
    return tuple(Upload.of_bytes(_decoded(url), f"image-{number}") for number, url in enumerate(urls, 1))


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("image_url", "input_image", "file")


def _url(part: dict[str, Any]) -> str:
    url = part.get("file" if part["type"] == "file" else "image_url")
    url = url.get("url", url.get("file_data")) if isinstance(url, dict) else url
    if not isinstance(url, str):
        raise Problem(400, "bad_request", "an image has no url", param="messages")
    return url


def _decoded(url: str) -> bytes:
    """The bytes of a data URL. What they are is for the child to find out that opens them."""
    head, comma, _ = url[:200].partition(",")
    if not head.lower().startswith("data:"):
        scheme = head.partition(":")[0][:20] if ":" in head else "no"
        what = f"nothing is fetched: a URL with {scheme!r} is refused"
        raise Problem(400, "bad_request", what, "Send the image itself as data:image/png;base64,...", param="messages")
    if not comma or not head.lower().endswith(";base64"):
        raise Problem(400, "bad_request", "a data URL must be in base64", param="messages")
    try:
        content = base64.b64decode("".join(url[len(head) + 1 :].split()), validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "bad_request", "the base64 of an image is broken", param="messages") from None
    if not content:
        raise Problem(400, "bad_request", "an image is empty", param="messages")
    return content


def _max_tokens(told: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        if (value := told.get(name)) is not None:
            if type(value) is not int or value < 1:
                raise Problem(400, "bad_request", f"{name} must be a whole number from 1", param=name)
            return value
    return None


def _unmet(name: str) -> Problem:
    return Problem(400, "bad_request", f"{name!r} cannot be met: a page is read as it is", "Leave it out", param=name)
