"""The models that ocria knows or finds on this machine; nothing is loaded."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.doctor.sizes import folder_bytes, told
from ocria.errors import EngineError

if TYPE_CHECKING:
    import torch

    from ocria.model.profiles import Profile

_COLUMNS = ("model", "reads", "writes", "parameters", "on disk", "in memory", "drafts")


@dataclass(frozen=True, slots=True)
class Model:
    """A model, on this machine or only known by name."""

    name: str
    profile: str
    reads: str | None
    """`page` or `line`; None: not publicly known, as in the next one."""
    writes: str | None
    missing: tuple[str, ...]
    """Options that must say what is not publicly known; the length of an answer has a limit of our own."""
    folder: str | None = None
    """None: not on this machine."""
    revision: str | None = None
    parameters: int | None = None
    disk_bytes: int | None = None
    device_bytes: int | None = None
    """Its weights, as they would be loaded."""
    dtype: str | None = None
    drafts: tuple[str, ...] = ()
    """What of the checkpoint can draft."""
    fault: str | None = None
    """Why it cannot be used."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def models(dtype: str | None = None, device: str | None = None) -> list[Model]:
    """The embedded model, those in the cache of the hub, and the profiles of models that are not there.

    `dtype`, `device`: as in `ocria.ParseOptions`, for the size in memory.
    """
    import torch

    from ocria.document.reader import NANO
    from ocria.model.hub_cache import fetched_models
    from ocria.model.profiles import GENERIC, built_in_profiles, find_profile

    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    as_dtype = getattr(torch, dtype or ("float32" if kind == "cpu" else "bfloat16"))
    found = []
    if (NANO / "config.json").is_file():
        found.append(_here("ocria-nano", None, NANO, find_profile(NANO), as_dtype, kind))
    for fetched in fetched_models():
        try:
            profile = find_profile(fetched.folder, fetched.name)
        except EngineError as error:
            found.append(_broken(fetched.name, fetched.revision, fetched.folder, error))
            continue
        # Of models without a profile those that ocria could run are listed: the cache may hold any others.
        if profile is not GENERIC or _is_ours(fetched.folder):
            found.append(_here(fetched.name, fetched.revision, fetched.folder, profile, as_dtype, kind))
    here = {model.profile for model in found}
    return [*found, *(_known(profile) for profile in built_in_profiles() if profile.name not in here)]


def drafters_of(folder: Path) -> tuple[str, ...]:
    """What a checkpoint can draft with: a reading of the vision encoder, and networks by the name of their folder."""
    from ocria.spec.vision import has_reading

    networks = sorted(path.parent.name for path in folder.glob("drafter*/config.json"))
    return (*(("vision",) if has_reading(folder) else ()), *networks)


def as_table(found: list[Model]) -> str:
    """A row for each model; below, where they are and what must be said to use them."""
    rows = [_COLUMNS, *(_row(model) for model in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    right = {_COLUMNS.index(name) for name in ("parameters", "on disk", "in memory")}
    lines = []
    for row in rows:
        cells = [f"{c:>{w}}" if i in right else f"{c:<{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.append("")
    for model in found:
        if model.folder is not None:
            lines.append(f"{model.name}: {model.folder}" + (f" (as {model.dtype})" if model.dtype else ""))
        if model.fault is not None:
            lines.append(f"{model.name} cannot be used: {model.fault}")
        elif model.missing:
            lines.append(f"{model.name} needs {', '.join(model.missing)}: what is right is not publicly known")
    return "\n".join(lines)


def _row(model: Model) -> tuple[str, ...]:
    return (
        model.name,
        model.reads or "?",
        model.writes or "?",
        "-" if model.parameters is None else _count(model.parameters),
        "not here" if model.disk_bytes is None else told(model.disk_bytes),
        "-" if model.device_bytes is None else told(model.device_bytes),
        " ".join(model.drafts) or "-",
    )


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


def _known(profile: Profile) -> Model:
    from ocria.model.profiles import OPTIONS

    needed = {name for name in profile.unknown() if name in OPTIONS and name != "max_output_tokens"}
    missing = sorted({OPTIONS[name] for name in needed})
    return Model(profile.name, profile.name, _word(profile.unit), _word(profile.dialect), tuple(missing))


def _here(
    name: str, revision: str | None, folder: Path, profile: Profile, dtype: torch.dtype, device: str
) -> Model:
    from ocria.model.checkpoint import LEFT_OUT
    from ocria.model.weights import list_tensors
    from ocria.runtime.memory import checkpoint_bytes

    try:
        tensors = [info for info in list_tensors(folder).values() if not LEFT_OUT.fullmatch(info.name)]
        found = checkpoint_bytes(folder, dtype)
        device_bytes = found.plain + (found.decoded if device == "cpu" else found.codes)
    except EngineError as error:
        return _broken(name, revision, folder, error)
    known = _known(profile)
    return Model(
        name=name,
        profile=profile.name,
        reads=known.reads,
        writes=known.writes,
        missing=known.missing,
        folder=str(folder),
        revision=revision,
        parameters=sum(math.prod(info.shape) for info in tensors),
        disk_bytes=folder_bytes(folder),
        device_bytes=device_bytes,
        dtype=str(dtype).removeprefix("torch."),
        drafts=drafters_of(folder),
    )


def _broken(name: str, revision: str | None, folder: Path, error: EngineError) -> Model:
    return Model(name, name, None, None, (), str(folder), revision, disk_bytes=folder_bytes(folder), fault=str(error))


def _is_ours(folder: Path) -> bool:
    """Whether the configuration is one of the architecture that ocria runs."""
    from ocria.model.config import ModelConfig

    try:
        ModelConfig.from_file(folder / "config.json")
    except EngineError:
        return False
    return True


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
