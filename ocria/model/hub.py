"""From what the user calls a model to a folder on this machine.

A folder is taken as it is. A hub name (`owner/name`, `owner/name@revision`) is looked up in the local cache of
Hugging Face first, so that a model once fetched needs no network, and fetched when it is not there.
`HF_HUB_OFFLINE=1` forbids the network.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ocria.errors import ModelNotFoundError
from ocria.model.files import is_whole

EMBEDDED = {"nano": "nano", "ocria-nano": "nano"}
"""Names of the models inside the package -> folder under `ocria/assets`."""

_HUB_NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
# Weights, configuration, tokenizer, template and our profile; no other formats of the same weights.
_WANTED = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]
_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model lies, and what it was called."""

    folder: Path
    name: str
    """The hub name or the name of the folder."""
    revision: str | None = None


def find_model(model: str | os.PathLike[str]) -> Source:
    """The folder of a model given as a folder, the name of an embedded model, or a hub name.

    Raises ModelNotFoundError with the name and what helps, after some seconds at most when the hub is silent.
    """
    text = os.fspath(model)
    folder = Path(text).expanduser()
    if text and folder.is_dir():
        return Source(folder, folder.resolve().name)
    if text in EMBEDDED:
        return Source(Path(__file__).parent.parent / "assets" / EMBEDDED[text], text)
    match = _HUB_NAME.fullmatch(text)
    if not match or folder.is_file() or text.startswith((".", "~")):
        kind = "a file, not a folder" if folder.is_file() else "no such folder"
        cure = "Give the folder with config.json and the weights, or a hub name such as owner/model."
        raise ModelNotFoundError(f"no model {text!r}: {kind}", path=text, cure=cure)
    return _from_hub(match["name"], match["revision"])


def _from_hub(name: str, revision: str | None) -> Source:
    try:
        import huggingface_hub as hub  # slow to import, and needed for hub names alone
        from huggingface_hub import errors
    except ImportError as error:
        raise ModelNotFoundError(
            f"no model {name!r}: no such folder, and hub names need the package huggingface_hub",
            cure="Install huggingface_hub, or give a folder.",
        ) from error

    def snapshot(**options) -> Path:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=_WANTED, **options))

    try:
        folder = snapshot(local_files_only=True)
        if is_whole(folder):
            return Source(folder, name, revision)
    except errors.LocalEntryNotFoundError:
        pass  # not in the cache: fetched below
    if hub.is_offline_mode():
        raise ModelNotFoundError(
            f"no model {name!r}: no such folder, not in the local cache, and HF_HUB_OFFLINE forbids the network",
            cure=f"Fetch it with `hf download {name}` where there is a network, or give a folder.",
        )
    try:
        # Asked first because the first request of snapshot_download has no time limit.
        hub.HfApi().model_info(name, revision=revision, timeout=_TIMEOUT_S)
        return Source(snapshot(etag_timeout=_TIMEOUT_S), name, revision)
    except errors.GatedRepoError as error:
        cure = f"Accept its terms on https://huggingface.co/{name}, then log in with `hf auth login`."
        raise ModelNotFoundError(f"no model {name!r}: access to it is restricted", cure=cure) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        cure = "Check the spelling, or log in with `hf auth login` if it is private."
        raise ModelNotFoundError(f"no model {_spell(name, revision)!r} on the hub", cure=cure) from error
    except Exception as error:  # the packages below raise their own kinds for each fault of a network
        cure = f"Check the network, or fetch it elsewhere with `hf download {name}` and give the folder."
        message = f"no model {name!r}: no such folder, not in the local cache, and the hub cannot be reached"
        raise ModelNotFoundError(f"{message} ({type(error).__name__})", cure=cure) from error


def _spell(name: str, revision: str | None) -> str:
    return f"{name}@{revision}" if revision else name
