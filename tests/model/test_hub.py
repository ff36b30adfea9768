"""From what the user calls a model to a folder, against a hub on this machine."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ocria.errors import ModelNotFoundError
from ocria.model import hub

pytest.importorskip("huggingface_hub")
from huggingface_hub import constants

NAME = "owner/Reader-1B"
REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "qwen3_5"}',
    "model.safetensors": b"weights",
    "chat_template.jinja": b"{{ messages }}",
    "README.md": b"not needed",
    "pytorch_model.bin": b"the same weights once more",
}


class FakeHub(BaseHTTPRequestHandler):
    """Answers what huggingface_hub asks for one repository; `refusal` is (status, error code)."""

    refusal: tuple[int, str] | None = None
    asked: list[str]

    def do_GET(self):
        self.server.asked.append(self.path)
        kind = self.path.split("?")[0]
        if self.server.refusal:
            status, code = self.server.refusal
            self.answer(b'{"error": "refused"}', status, {"X-Error-Code": code})
        elif kind.startswith(f"/api/models/{NAME}/tree/"):
            tree = [{"type": "file", "path": n, "size": len(b), "oid": n} for n, b in FILES.items()]
            self.answer(json.dumps(tree).encode())
        elif kind.startswith(f"/api/models/{NAME}"):
            files = [{"rfilename": name} for name in FILES]
            self.answer(json.dumps({"id": NAME, "sha": REVISION, "siblings": files}).encode())
        else:
            name = kind.rpartition("/")[2]
            self.answer(FILES[name], headers={"ETag": f'"{name}"', "X-Repo-Commit": REVISION})

    do_HEAD = do_GET

    def answer(self, body, status=200, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of our own, and no hub at the far end."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.refusal, server.asked = None, []
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        f"http://127.0.0.1:{server.server_port}{template}",
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_folder_is_taken_as_it_is(tmp_path):
    folder = tmp_path / "owner" / "model"
    folder.mkdir(parents=True)
    assert hub.find_model(folder) == hub.Source(folder, "model")
    assert hub.find_model(str(folder)).folder == folder


def test_embedded_names():
    source = hub.find_model("ocria-nano")
    assert source.folder.parts[-3:] == ("ocria", "assets", "nano")
    assert hub.find_model("nano").folder == source.folder


@pytest.mark.parametrize("text", ["./owner/model", "/no/such/folder", "plainname", "~/x", "a/b/c", "", "../x"])
def test_no_such_folder(text):
    with pytest.raises(ModelNotFoundError, match="no such folder") as caught:
        hub.find_model(text)
    assert "config.json" in caught.value.cure


def test_a_file_is_not_a_model(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelNotFoundError, match="a file, not a folder"):
        hub.find_model(tmp_path / "model.safetensors")


def test_fetched_once_and_then_local(server, cache, monkeypatch):
    source = hub.find_model(NAME)
    assert source.name == NAME
    assert {path.name for path in source.folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "chat_template.jinja",
    }
    assert (source.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    server.asked.clear()
    assert hub.find_model(NAME) == source
    assert server.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.find_model(NAME) == source


def test_a_partial_download_is_completed(server):
    folder = hub.find_model(NAME).folder
    (folder / "model.safetensors").unlink()
    assert hub.find_model(NAME).folder == folder
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_revision(server):
    source = hub.find_model(f"{NAME}@{REVISION}")
    assert source.revision == REVISION
    assert source.folder.name == REVISION


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ((404, "RepoNotFound"), "on the hub"),
        ((401, "RepoNotFound"), "on the hub"),
        ((403, "GatedRepo"), "restricted"),
        ((404, "RevisionNotFound"), "on the hub"),
        ((400, "Other"), "cannot be reached"),
    ],
    ids=str,
)
def test_refusals(server, refusal, message):
    server.refusal = refusal
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        hub.find_model(NAME)
    assert NAME in str(caught.value)
    assert caught.value.cure


def test_offline(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError, match=rf"{NAME}.*HF_HUB_OFFLINE.*hf download"):
        hub.find_model(NAME)
    assert server.asked == []


def test_unreachable():
    with pytest.raises(ModelNotFoundError, match=rf"{NAME}.*cannot be reached"):
        hub.find_model(NAME)


def test_a_silent_hub_is_given_up(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(hub, "_TIMEOUT_S", 0.3)
        with pytest.raises(ModelNotFoundError, match="cannot be reached"):
            hub.find_model(NAME)
