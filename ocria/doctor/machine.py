"""Whether everything around the engine is in order: packages, settings, files, the processes that draw pages."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping

from ocria import __version__
from ocria.doctor.check import FAIL, OK, WARN, Check
from ocria.errors import OcriaError

_NEEDED = ("torch", "safetensors", "tokenizers", "jinja2", "pymupdf", "pymupdf4llm", "pillow", "numpy", "rich")
_OPTIONAL = {
    "pillow-heif": ("HEIC images", "pip install 'ocria[heic]'"),
    "textual": ("the app", "pip install 'ocria[tui]'"),
    "huggingface_hub": ("models by their name on the hub", "pip install huggingface_hub"),
}
_WORDS = "The processes that draw pages have read this line."


def machine_checks(files: Iterable[str], variables: Iterable[str]) -> list[Check]:
    """`files`: configuration files that were read; `variables`: those of the environment that ocria knows."""
    return [
        Check("ocria", OK, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        _packages(),
        *(_optional(name, use, cure) for name, (use, cure) in _OPTIONAL.items()),
        _configuration(list(files)),
        _environment(os.environ, set(variables)),
        _temporary(),
        _workers(),
    ]


def _packages() -> Check:
    versions = {name: _version(name) for name in _NEEDED}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        said = f"not installed: {', '.join(missing)}"
        return Check("packages", FAIL, said, "Install ocria again with pip.", engine=True, facts=dict(versions))
    return Check("packages", OK, ", ".join(f"{name} {v}" for name, v in versions.items()), facts=dict(versions))


def _optional(name: str, use: str, cure: str) -> Check:
    version = _version(name)
    if version is None:
        return Check(name, WARN, f"not installed: {use} cannot be used", f"If you need it: {cure}")
    return Check(name, OK, version)


def _configuration(files: list[str]) -> Check:
    return Check("configuration", OK, ", ".join(files) or "no file", facts={"files": files})


def _environment(environment: Mapping[str, str], known: set[str]) -> Check:
    ours = sorted(name for name in environment if name.startswith("OCRIA_"))
    strange = [name for name in ours if name not in known]
    facts = {"set": ours, "unknown": strange}
    if not strange:
        return Check("environment", OK, ", ".join(ours) or "no variable of ocria is set", facts=facts)
    near = difflib.get_close_matches(strange[0], sorted(known), n=1, cutoff=0.7)
    cure = f"Did you mean {near[0]}?" if near else "`ocria config show --json` lists all variables."
    return Check("environment", WARN, f"ocria knows no {', '.join(strange)}", cure, facts=facts)


def _temporary() -> Check:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"0" * 4096)
            file.flush()
    except OSError as error:
        cure = "Set TMPDIR to a folder with room."
        return Check("temporary files", FAIL, f"{_temporary_folder()} cannot be written ({error.strerror})", cure)
    return Check("temporary files", OK, _temporary_folder(), facts={"folder": _temporary_folder()})


def _temporary_folder() -> str:
    """Where they go; `gettempdir` fails where none of its candidates can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR") or "the folder of temporary files"


def _workers() -> Check:
    """Draw a page as a run would. No font of the system takes part in it."""
    import pymupdf

    import ocria

    with pymupdf.open() as pdf:
        pdf.new_page().insert_text((72, 90), _WORDS)
        data = pdf.tobytes()
    cure = "`ocria parse --jobs 0` opens files in the process of ocria itself."
    try:
        document = ocria.parse(data, mode="text", jobs=1)
    except OcriaError as error:
        return Check("page workers", FAIL, str(error), cure)
    if _WORDS not in document.text:
        said = document.pages[0].error or f"it came back as {document.text[:80]!r}"
        return Check("page workers", FAIL, f"a page with one line could not be read: {said}", cure)
    return Check("page workers", OK, "a page was opened and read")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
