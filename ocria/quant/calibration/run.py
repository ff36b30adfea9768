"""Quantising a checkpoint by a recipe: statistics, scaling, rounding, scales of the cache, files, and a look back."""

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ocria.errors import CheckpointError, OutputError, UsageError
from ocria.model.checkpoint import load_model
from ocria.model.network import Qwen35
from ocria.model.profiles import find_profile
from ocria.model.weights import list_tensors
from ocria.ops.quant_grid import E4M3_MAX
from ocria.quant.calibration.awq import Folds, scale
from ocria.quant.calibration.drafters import drafter_folders, quantize_drafter
from ocria.quant.calibration.mappings import joined
from ocria.quant.calibration.module import quantise_module, shared_amax
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.passes import Passes
from ocria.quant.calibration.report import ModuleReport, QuantizeReport
from ocria.quant.calibration.source import PlainCheckpoint, file_bytes
from ocria.quant.calibration.statistics import InputStatistics, cache_ranges, collect, recorded_calls
from ocria.quant.check import measure
from ocria.quant.formats import OnDemand, read_quantized, write_checkpoint
from ocria.quant.recipe import Format, Recipe
from ocria.quant.tensors import Weight
from ocria.spec.config import DrafterConfig

REPORT = "quantization_report.json"
HESSIAN_BYTES = 2 << 30
"""What the second moments that GPTQ needs may take at a time; with more of them, more passes are made."""

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and of how much."""


def quantize(
    model: str | Path,
    recipe: Recipe,
    samples: Sequence[Sample],
    out: Path,
    *,
    drafters: Mapping[str, Path] | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    facts: Mapping[str, object] | None = None,
    on_progress: OnProgress | None = None,
) -> QuantizeReport:
    """Write the model, quantised, into the new or empty folder `out`, with everything that belongs to it and a report
    (`REPORT`). The folder appears when it is complete.

    samples: of `load_samples`; none for a recipe that needs no pages. drafters: those to quantise as well, by the name
    of their folder in `out`, with the formats that the recipe gives to like layers; None: those of the model. Others
    that the model has are copied.
    device, dtype: where and in what the model computes on the samples; without samples it is not loaded, and weights
    pass through memory one by one. facts: of its profile, as `load_samples` was told.
    Raises UsageError where pages are needed and none are given, ConfigError where the recipe does not suit the
    checkpoint or a drafter is another model's, CheckpointError for weights that cannot be quantised, OutputError for a
    folder that is not empty or cannot be written.
    """
    if recipe.needs_pages and not samples:
        cure = "Give pages, or a recipe without scaling, GPTQ, scales of inputs and of the cache."
        raise UsageError(f"the recipe {recipe.name} needs pages to calibrate on", cure=cure)
    checkpoint = PlainCheckpoint.find(model)
    report = QuantizeReport(recipe, len(samples), bytes_before=checkpoint.total_bytes)
    plan = recipe.plan(checkpoint.modules)
    tell = on_progress or (lambda stage, done, total: None)
    with fresh_folder(out) as made:
        work = _Work(checkpoint, recipe, plan, report, tell)
        if samples:
            work.calibrate(samples, torch.device(device), dtype, facts or {})
        names = list(plan)
        write_checkpoint(
            made,
            checkpoint.folder,
            OnDemand(names, work.module),
            recipe.form,
            replaced=work.replaced,
            kv_scales=work.kv_scales,
        )
        _verify(made, work.digests)
        report.bytes_after = sum(file_bytes(info) for info in list_tensors(made).values())
        if drafters is None:
            drafters = {folder.name: folder for folder in drafter_folders(checkpoint.folder)}
        for name, folder in drafters.items():
            DrafterConfig.from_file(folder / "config.json").check_target(checkpoint.config.text)
            shutil.rmtree(made / name, ignore_errors=True)  # a copy of the plain one
            report.drafters[name] = quantize_drafter(folder, made / name, recipe)
        (made / REPORT).write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    return report


def check_output(out: Path) -> None:
    """Raise OutputError where `out` holds something: nothing is overwritten."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise OutputError("is there already", path=out, cure="Give a new folder.")


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` to be filled; it becomes `out` at the end, and nothing is left of it after a failure or an
    interrupt. Raises OutputError where `out` holds something."""
    out = Path(out)
    check_output(out)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir()
        try:
            yield part
            check_output(out)  # another run may have filled it meanwhile
            part.rename(out)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        path = error.filename or out
        raise OutputError(f"cannot be written: {error.strerror or error}", path=path) from error


class _Work:
    """The weights of one checkpoint, made one by one."""

    def __init__(
        self,
        checkpoint: PlainCheckpoint,
        recipe: Recipe,
        plan: dict[str, Format],
        report: QuantizeReport,
        tell: OnProgress,
    ):
        self.replaced: dict[str, torch.Tensor] = {}
        self.kv_scales: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.digests: dict[str, int] = {}
        self._checkpoint, self._recipe, self._plan = checkpoint, recipe, plan
        self._report, self._tell = report, tell
        self._network: Qwen35 | None = None
        self._folds, self._hessians = Folds(), None
        self._amax: dict[str, float] | None = None

    def module(self, name: str) -> Weight:
        """The quantised weight of a module, by its name in the files."""
        inner, format, recipe = self._checkpoint.in_network(name), self._plan[name], self._recipe
        if self._amax is None:
            self._amax = _joined_amax(self._checkpoint, self._plan)
        plain = self._plain(name)
        statistics = self._folds.statistics.get(inner)
        if self._hessians is not None:
            statistics = self._hessians[inner]
        factors = self._folds.pre_quant.get(inner)
        made = quantise_module(
            plain, format, statistics, name=name, search=recipe.block_scales, gptq=recipe.gptq, dialect=recipe.form,
            amax=self._amax.get(inner), pre_quant_scale=factors,
        )  # fmt: skip
        self.digests[name] = _digest(made)
        outputs = None if statistics is None else _output_error(plain, made, statistics.rows)
        before = self._checkpoint.nbytes(name)
        error = measure(plain, made).error
        self._report.modules.append(
            ModuleReport(name, format.name, made.shape, before, _parts_bytes(made), error, outputs)
        )
        self._tell("quantising", len(self._report.modules), len(self._plan))
        return made

    def _plain(self, name: str) -> torch.Tensor:
        """The weight as it is to be rounded: scaled, where the network was."""
        if self._network is None:
            return self._checkpoint.weight(name)
        inner = self._checkpoint.in_network(name)
        return self._network._head() if name == "lm_head" else self._network.get_submodule(inner).weight

    def calibrate(
        self, samples: Sequence[Sample], device: torch.device, dtype: torch.dtype, facts: Mapping[str, object]
    ) -> None:
        """Find what pages tell: before the first weight is made."""
        checkpoint, recipe = self._checkpoint, self._recipe
        loaded = load_model(checkpoint.source.folder, dtype=dtype, device=device)
        profile = find_profile(checkpoint.folder, checkpoint.source.name)
        loaded = loaded.with_profile(profile.override(**facts))
        self._network = network = loaded.network
        passes = Passes(loaded, samples)

        def run(stage: str) -> Callable[[], None]:
            def made() -> None:
                for index in range(len(passes)):
                    passes(index)
                    self._tell(stage, index + 1, len(passes))

            return made

        plan = {checkpoint.in_network(name): format for name, format in self._plan.items()}
        if plan:
            with recorded_calls(network) as calls:
                statistics = collect(network, run("calibrating"), list(plan))
            self._report.tokens = max(found.tokens for found in statistics.values())
            self._folds = Folds(statistics=statistics)
            if recipe.scaling == "awq":
                self._folds = scale(
                    network, statistics, plan, calls, dtype=checkpoint.dtype, search=recipe.block_scales,
                    dialect=recipe.form, pre_quant=recipe.form == "modelopt",
                    on_group=lambda done, total: self._tell("scaling", done, total),
                )  # fmt: skip
        outer = {checkpoint.in_network(name): name for name in checkpoint.infos}
        self.replaced = {outer[name]: value.cpu() for name, value in self._folds.replaced.items()}
        self._report.choices = self._folds.choices
        self._amax = shared_amax(network, plan)
        if recipe.kv == "fp8":
            self._find_kv_scales(run("measuring the cache"), outer)
        if recipe.gptq:
            self._hessians = _Hessians(network, run, plan, self._folds.statistics)

    def _find_kv_scales(self, run: Callable[[], None], outer: dict[str, str]) -> None:
        with cache_ranges(self._network) as ranges:
            run()
        for inner, found in ranges.items():
            name = outer[f"{inner}.k_proj.weight"].removesuffix(".k_proj.weight")
            values = tuple((amax if amax > 0 else E4M3_MAX) / E4M3_MAX for amax in (found.keys, found.values))
            self._report.kv[name] = values
            self.kv_scales[name] = tuple(map(torch.tensor, values))


class _Hessians:
    """Statistics with the second moments of inputs, for a few layers at a time: those that were asked for, and in
    their order those after them, as many as `HESSIAN_BYTES` hold."""

    def __init__(
        self,
        network: torch.nn.Module,
        run: Callable[[str], Callable[[], None]],
        plan: dict[str, Format],
        statistics: dict[str, InputStatistics],
    ):
        self._network, self._run, self._statistics = network, run("collecting for GPTQ"), statistics
        self._left = list(plan)
        self._held: dict[str, InputStatistics] = {}

    def __getitem__(self, name: str) -> InputStatistics:
        if name not in self._held:
            chosen, room = [], HESSIAN_BYTES
            start = self._left.index(name)
            for other in self._left[start:]:
                room -= 4 * len(self._statistics[other].amax) ** 2
                if chosen and room < 0:
                    break
                chosen.append(other)
            self._held = {}
            self._held = collect(self._network, self._run, chosen, hessian=chosen)
        return self._held[name]


def _joined_amax(checkpoint: PlainCheckpoint, plan: dict[str, Format]) -> dict[str, float]:
    """As `shared_amax`, from the files."""
    with torch.device("meta"):
        network = Qwen35(checkpoint.config)
    outer = {checkpoint.in_network(name): name for name in plan}
    found = {}
    for names in joined(network):
        members = [name for name in names if name in outer and plan[outer[name]].kind == "nvfp4"]
        sizes = [checkpoint.weight(outer[name]).abs().max().item() for name in members]
        found.update(dict.fromkeys(members, max(sizes, default=None)))
    return found


def _output_error(plain: torch.Tensor, made: Weight, rows: torch.Tensor) -> float | None:
    """The root of the squared error over that of the squares, of what rows `[R, K]` give."""
    plain = plain.float()
    wanted = rows @ plain.T
    size = wanted.norm()
    return ((rows @ made.dense().T - wanted).norm() / size).item() if size > 0 else None


def _digest(weight: Weight) -> int:
    """A number that tells weights apart that are not the same to the bit."""
    code = 0
    for name in ("codes", "scales", "scale"):
        tensor = getattr(weight, name, None)
        if tensor is not None:
            code = zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy(), code)
    return code


def _verify(folder: Path, digests: dict[str, int]) -> None:
    """Read every weight back. Raises CheckpointError for one that is not what was made."""
    found = read_quantized(folder, list_tensors(folder))
    if set(found) != set(digests):
        raise CheckpointError("holds other weights than were written", path=folder, cure="Is the disk sound?")
    for name, digest in digests.items():
        if _digest(found[name]) != digest:
            raise CheckpointError(f"{name} is not what was written", path=folder, cure="Is the disk sound?")


def _parts_bytes(weight: Weight) -> int:
    extra = getattr(weight, "input_scale", None) is not None or getattr(weight, "input_multiplier", None) is not None
    return weight.nbytes + 4 * extra

