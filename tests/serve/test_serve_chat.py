"""`/v1/chat/completions`: what clients of OpenAI and of vision models send."""

import base64
import json

import pytest
from served import LIMITS, httpx, png, wait_for


def data_url(content, media_type="image/png"):
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def message(*urls, text="Read this page."):
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*images, {"type": "text", "text": text}]}]


def ask(server, **body):
    return server.client.post("/v1/chat/completions", json=body)


@pytest.fixture
def openai(server):
    openai = pytest.importorskip("openai", reason="openai is not installed: its client is what this is about")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=120) as client:
        yield client


def test_the_client_of_openai(openai, scan):
    answer = openai.chat.completions.create(model="ocria-nano", messages=message(data_url(scan[0])))
    (choice,) = answer.choices
    assert scan[1] in choice.message.content
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    usage = answer.usage
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert [model.id for model in openai.models.list()] == ["ocria-nano", "olmocr"]
    assert openai.models.retrieve("olmocr").owned_by == "ocria"


def test_the_client_of_openai_streaming(openai, scan):
    whole = openai.chat.completions.create(model="ocria-nano", messages=message(data_url(scan[0])))
    chunks = list(
        openai.chat.completions.create(
            model="ocria-nano", messages=message(data_url(scan[0])), stream=True, stream_options={"include_usage": True}
        )
    )
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == "stop"
    assert set(reasons[:-1]) == {None}
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], whole.usage.completion_tokens)


def test_errors_are_those_of_the_client(openai, scan):
    import openai as library

    with pytest.raises(library.NotFoundError, match="gpt-9"):
        openai.chat.completions.create(model="gpt-9", messages=message(data_url(scan[0])))
    with pytest.raises(library.BadRequestError, match="nothing is fetched"):
        openai.chat.completions.create(model="ocria-nano", messages=message("https://example.com/a.png"))
    with pytest.raises(library.NotFoundError):
        openai.models.retrieve("gpt-9")


def test_the_request_of_olmocr(server, scan):
    """As its pipeline builds it (allenai/olmocr, olmocr/pipeline.py, build_page_query), and what it looks at in the
    answer."""
    query = {
        "model": "olmocr",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Attached is one page of a document that you must process."},
                    {"type": "image_url", "image_url": {"url": data_url(scan[0])}},
                ],
            }
        ],
        "max_tokens": 4500,
        "temperature": 0.1,
    }
    body = json.dumps(query).encode()
    headers = {"Content-Type": "application/json", "Connection": "close"}
    answer = server.client.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == len(answer.content)  # it takes no other framing
    told = answer.json()
    assert told["usage"]["total_tokens"] <= 16384
    assert told["choices"][0]["finish_reason"] == "stop"
    assert scan[1] in told["choices"][0]["message"]["content"]


def test_the_request_of_docling(server, scan):
    """As it asks a vision model (docling-project/docling, docling/utils/api_image_request.py), streaming: no model is
    named, and the image is RGBA."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(scan[0])).convert("RGBA").save(out, "PNG")
    body = {"messages": message(data_url(out.getvalue())), "stream": True, "max_completion_tokens": 4096,
            "skip_special_tokens": False, "temperature": 0.0}  # fmt: skip
    text, ended = [], False
    headers = {"Accept": "text/event-stream", "X-Temperature": "0.0"}
    with server.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data:"):
                data = line[len("data:") :].strip()
                ended = data == "[DONE]"
                text.append("" if ended else json.loads(data)["choices"][0]["delta"].get("content") or "")
    assert ended
    assert scan[1] in "".join(text)


IMAGE = {"type": "image_url", "image_url": {"url": None}}
TEXT = {"type": "text", "text": "Text Recognition:"}
CLIENTS = {
    # opendatalab/mineru-vl-utils, vlm_client/http_client.py
    "mineru": {
        "model": "ocria-nano",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": [{**IMAGE, "image_url": {"url": None, "detail": "high"}}, TEXT]},
        ],
        "temperature": 0.0, "top_p": 0.01, "top_k": 1, "presence_penalty": 1.0, "frequency_penalty": 0.005,
        "repetition_penalty": 1.0, "vllm_xargs": {"no_repeat_ngram_size": 100, "debug": False}, "priority": 0,
        "max_completion_tokens": 4096, "skip_special_tokens": False,
    },
    # getomni-ai/zerox, models/modellitellm.py, through LiteLLM
    "zerox": {
        "model": "ocria-nano",
        "messages": [
            {"role": "system", "content": "Convert the following document to markdown."},
            {"role": "system", "content": "Markdown must maintain consistent formatting with the following page: ..."},
            {"role": "user", "content": [IMAGE]},
        ],
        "user": "someone", "extra_body": {}, "stop": None,
    },
    # rednote-hilab/dots.ocr, model/inference.py
    "dots": {
        "model": "ocria-nano",
        "messages": [{"role": "user", "content": [IMAGE, {**TEXT, "text": "<|img|><|imgpad|><|endofimg|>Read."}]}],
        "max_completion_tokens": 32768, "temperature": 0.1, "top_p": 0.9,
    },
    "words in another message": {
        "messages": [{"role": "user", "content": [IMAGE]}, {"role": "user", "content": "Read it."}],
        "stop": ["<|endoftext|>"], "tools": [], "logprobs": False, "response_format": {"type": "text"},
    },
    # https://platform.openai.com/docs/guides/pdf-files
    "file": {
        "messages": [
            {"role": "user", "content": [{"type": "file", "file": {"filename": "a.png", "file_data": None}}, TEXT]}
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_the_requests_of_others(server, scan, client):
    def filled(told):
        if isinstance(told, dict):
            return {k: data_url(scan[0]) if k in ("url", "file_data") else filled(v) for k, v in told.items()}
        return [filled(one) for one in told] if isinstance(told, list) else told

    answer = ask(server, **filled(CLIENTS[client]))
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "stop"
    assert scan[1] in choice["message"]["content"]


def test_a_pdf_in_a_completion_is_read_page_by_page(server, pdf):
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": data_url(pdf, "application/pdf")}}
    text = ask(server, messages=[{"role": "user", "content": [part]}]).json()["choices"][0]["message"]["content"]
    assert text.count("age") == 3


def test_several_images_are_pages_that_follow_each_other(server, scan):
    urls = [data_url(scan[0]), data_url(png(["Another page"]))]
    text = ask(server, messages=message(*urls)).json()["choices"][0]["message"]["content"]
    assert text.index(scan[1]) < text.index("Another page")
    assert "\n\n" in text
    too_many = ask(server, messages=message(*urls * LIMITS["max_pages"]))
    assert too_many.status_code == 413


def test_an_answer_that_is_too_long_is_cut(server, scan):
    for stream in (False, True):
        answer = ask(server, messages=message(data_url(scan[0])), max_tokens=1, stream=stream)
        assert answer.status_code == 200
        assert '"length"' in answer.text
    server.wait_until_free()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a.png",
        "https://example.com/a.png",
        "file:///etc/passwd",
        "/etc/passwd",
        "ftp://example.com/a",
        "data:image/png,abc",
        "data:image/png;base64,@@@@",
        "data:image/png;base64,",
        None,
        7,
        {"url": 7},
    ],
)
def test_images_that_are_refused(server, url):
    answer = ask(server, messages=message(url))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "messages"


@pytest.mark.parametrize(
    "content", [b"root:x:0:0", b"%PDF-1.7 nothing", b"PK\x03\x04nothing", b"\x89PNG\r\n\x1a\nnothing", b"II*\0nothing"]
)
def test_what_is_no_image_at_all(server, content):
    answer = ask(server, messages=message(data_url(content)))
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "input_error")


def test_an_image_that_unpacks_to_too_much(server):
    from test_serve_parse import bomb

    assert ask(server, messages=message(data_url(bomb(2000, 2000)))).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": "read"},
        {"messages": []},
        {"messages": [7]},
        {"messages": [{"role": "user", "content": "no image"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "no image"}]}]},
    ],
)
def test_messages_without_an_image(server, body):
    assert ask(server, **body).status_code == 400


@pytest.mark.parametrize(
    "more",
    [{"n": 2}, {"tools": [{"type": "function"}]}, {"logprobs": True}, {"response_format": {"type": "json_object"}},
     {"guided_regex": "a+"}, {"max_tokens": 0}, {"max_tokens": "many"}],
)  # fmt: skip
def test_what_cannot_be_met_is_refused(server, scan, more):
    answer = ask(server, messages=message(data_url(scan[0])), **more)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == next(iter(more))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_bodies_that_are_no_request(server, content):
    assert server.client.post("/v1/chat/completions", content=content).status_code == 400


def test_a_client_that_leaves_frees_the_queue(server, scan):
    with server.held():
        for stream in (False, True):
            body = {"messages": message(data_url(scan[0])), "stream": stream}
            impatient = httpx.Timeout(60, read=0.5)
            with server.new_client() as client, pytest.raises(httpx.ReadTimeout):
                client.post("/v1/chat/completions", json=body, timeout=impatient)
        wait_for(lambda: server.desk.taken == 0)
