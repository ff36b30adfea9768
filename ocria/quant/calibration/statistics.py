"""What the linear layers of a network receive, over passes of real prompts.

Rows of image tokens count like all others: they are most of what a document model reads. Padding does not.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ocria.errors import CheckpointError, UsageError
from ocria.model.attention import GatedAttention
from ocria.model.deltanet import GatedDeltaNet
from ocria.model.network import Qwen35
from ocria.model.text import DecoderLayer
from ocria.model.window import Window
from ocria.ops.rope import rotate
from ocria.quant.simulate import HEAD

Call = tuple[torch.Tensor, Window, None, int]
"""What a mixer was called with: x `[B, T, D]`, the window, no state, the number of the layer."""


@dataclass(frozen=True, slots=True, eq=False)
class InputStatistics:
    """The input of a linear layer, columns K.

    tokens: rows seen. mean_abs, mean_square, amax: fp32 `[K]`, of each column over all rows. rows: fp32 `[R, K]`, a
    uniform sample of them. hessian: fp32 `[K, K]`, 2 X^T X / tokens, or None.
    """

    tokens: int
    mean_abs: torch.Tensor
    mean_square: torch.Tensor
    amax: torch.Tensor
    rows: torch.Tensor
    hessian: torch.Tensor | None = None

    @property
    def max_abs(self) -> float:
        """The largest magnitude of all."""
        return self.amax.max().item()

    def divided(self, s: torch.Tensor) -> "InputStatistics":
        """Of an input that is divided by s `[K]`, positive numbers, column by column."""
        s = s.float()
        hessian = None if self.hessian is None else self.hessian / s[:, None] / s
        return replace(
            self,
            mean_abs=self.mean_abs / s,
            mean_square=self.mean_square / s.square(),
            amax=self.amax / s,
            rows=self.rows / s,
            hessian=hessian,
        )


def collect(
    network: Qwen35,
    run: Callable[[], object],
    modules: Sequence[str],
    *,
    rows: int = 512,
    hessian: Collection[str] = (),
    seed: int = 0,
) -> dict[str, InputStatistics]:
    """Statistics of the inputs of these linear layers, by name, while `run` makes its passes (`Passes.run`).

    The network is plain and not prepared. `lm_head` is the head, tied or not; of its input come the rows that logits
    are asked for. Layers of one input share one object. rows: size of the sample. hessian: the layers that need it, 4
    K^2 bytes for each input.
    Raises UsageError for a name that is no linear layer and for a network that is prepared; CheckpointError for a
    layer that no pass reaches, and for inputs that are not finite.
    """
    if network._prepared:
        raise UsageError("a network that is prepared does not call its layers one by one", cure="Load it anew.")
    recorder = _Recorder(rows, frozenset(hessian), torch.Generator().manual_seed(seed))
    with ExitStack() as undo, torch.no_grad():
        _follow_padding(network, undo, recorder.begin)
        for name in modules:
            _observe(network, name, recorder, undo)
        run()
    missed = [name for name in modules if name not in recorder.inputs]
    if missed:
        raise CheckpointError(f"no calibration pass reaches {', '.join(missed)}")
    made: dict[int, InputStatistics] = {}
    for name, moments in recorder.inputs.items():
        if id(moments) not in made:
            made[id(moments)] = moments.statistics(name)
    return {name: made[id(recorder.inputs[name])] for name in modules}


@contextmanager
def recorded_calls(network: Qwen35, tokens: int = 2048) -> Iterator[dict[str, list[Call]]]:
    """What the mixers are called with, by name, in the first passes of about so many tokens: to call them again with
    other weights. The passes are whole sequences without a state. Raises UsageError for others."""
    calls: dict[str, list[Call]] = {}
    left: dict[str, int] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            x, window, state, layer = args
            if state is not None:
                raise UsageError("calibration passes are whole sequences, and this one has a state")
            if left[name] > 0:
                calls[name].append((x.detach(), window, None, layer))
                left[name] -= x.shape[0] * x.shape[1]

        return hook

    with ExitStack() as undo:
        for name, module in network.named_modules():
            if isinstance(module, GatedAttention | GatedDeltaNet):
                calls[name], left[name] = [], tokens
                undo.callback(module.register_forward_pre_hook(keep(name)).remove)
        yield calls


@dataclass(slots=True)
class CacheRange:
    """The largest magnitudes that an attention layer would cache: of keys, after norm and rotation, and of values."""

    keys: float = 0.0
    values: float = 0.0


@contextmanager
def cache_ranges(network: Qwen35) -> Iterator[dict[str, CacheRange]]:
    """The ranges of keys and values of every attention layer, by name, over the passes made inside."""
    ranges: dict[str, CacheRange] = {}
    current: dict[str, Window] = {}

    def keys(found: CacheRange) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], k: torch.Tensor) -> None:
            window = current["window"]
            k = rotate(k, window.cos[:, :, None].to(k.dtype), window.sin[:, :, None].to(k.dtype))
            found.keys = max(found.keys, _valid(k, window.valid).abs().max().item())

        return hook

    def values(found: CacheRange) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], v: torch.Tensor) -> None:
            found.values = max(found.values, _valid(v, current["window"].valid).abs().max().item())

        return hook

    with ExitStack() as undo:
        _follow_padding(network, undo, lambda window: current.update(window=window))
        for name, module in network.named_modules():
            if isinstance(module, GatedAttention):
                ranges[name] = CacheRange()
                undo.callback(module.k_norm.register_forward_hook(keys(ranges[name])).remove)
                undo.callback(module.v_proj.register_forward_hook(values(ranges[name])).remove)
        yield ranges


class _Recorder:
    """Moments by name of layer. Layers that are called with the very same tensor in turn have one input."""

    def __init__(self, rows: int, hessian: frozenset[str], generator: torch.Generator):
        self.inputs: dict[str, _Moments] = {}
        self._limit, self._hessian, self._generator = rows, hessian, generator
        self._last: tuple[torch.Tensor, _Moments] | None = None
        self._valid: torch.Tensor | None = None

    def begin(self, window: Window) -> None:
        self._valid = window.valid

    def add(self, name: str, x: torch.Tensor, masked: bool = True) -> None:
        flat = _valid(x, self._valid if masked else None).float()
        moments = self.inputs.get(name)
        if self._last is not None and x is self._last[0]:
            shared = self._last[1]
            if moments is None:
                self.inputs[name] = shared
                if name in self._hessian and shared.hessian is None:
                    shared.begin_hessian(flat)
            return
        if moments is None:
            moments = self.inputs[name] = _Moments(flat.shape[1], self._limit, self._generator)
            if name in self._hessian:
                moments.begin_hessian(flat[:0])
        moments.add(flat)
        self._last = (x, moments)


class _Moments:
    """Sums over the rows of one input, and a sample: those of the largest random numbers, one drawn for every row."""

    def __init__(self, columns: int, limit: int, generator: torch.Generator):
        self.tokens = 0
        self.hessian: torch.Tensor | None = None
        self._generator, self._limit, self._columns = generator, limit, columns
        self._sum: torch.Tensor | None = None  # fp64 `[2, K]`: of magnitudes and of squares
        self._amax: torch.Tensor | None = None
        self._rows: torch.Tensor | None = None
        self._drawn = torch.zeros(0, dtype=torch.float64)

    def add(self, x: torch.Tensor) -> None:
        """x fp32 `[M, K]`."""
        if self._sum is None:
            self._sum = x.new_zeros(2, self._columns, dtype=torch.float64)
            self._amax, self._rows = x.new_zeros(self._columns), x[:0]
        if not len(x):
            return
        self._sum += torch.stack([x.abs().sum(0, dtype=torch.float64), x.square().sum(0, dtype=torch.float64)])
        self._amax = torch.maximum(self._amax, x.abs().amax(0))
        if self.hessian is not None:
            self._add_hessian(x, self.tokens)
        self.tokens += len(x)
        self._sample(x)

    def begin_hessian(self, x: torch.Tensor) -> None:
        """From now on; x are the rows seen until now."""
        self.hessian = x.new_zeros(self._columns, self._columns)
        if len(x):
            self._add_hessian(x, 0)

    def statistics(self, name: str) -> InputStatistics:
        mean_abs, mean_square = (self._sum / max(1, self.tokens)).float()
        if not mean_square.isfinite().all():
            message = f"{name} receives NaN or infinity from calibration pages"
            raise CheckpointError(message, cure="Was the checkpoint saved whole?")
        return InputStatistics(self.tokens, mean_abs, mean_square, self._amax, self._rows, self.hessian)

    def _add_hessian(self, x: torch.Tensor, before: int) -> None:
        total = before + len(x)
        self.hessian.addmm_(x.T, x, beta=before / total, alpha=2 / total)

    def _sample(self, x: torch.Tensor) -> None:
        drawn = torch.rand(len(x), dtype=torch.float64, generator=self._generator)
        if len(self._drawn) == self._limit:  # most are not worth copying
            new = (drawn > self._drawn.min()).nonzero().flatten()
            drawn, x = drawn[new], x[new.to(x.device)]
        drawn, rows = torch.cat([self._drawn, drawn]), torch.cat([self._rows, x])
        if len(drawn) > self._limit:
            drawn, kept = drawn.topk(self._limit)
            rows = rows[kept.to(x.device)]
        self._drawn, self._rows = drawn, rows


def _observe(network: Qwen35, name: str, recorder: _Recorder, undo: ExitStack) -> None:
    if name == HEAD:
        logits = network.logits

        def observed(hidden: torch.Tensor) -> torch.Tensor:
            recorder.add(HEAD, hidden, masked=False)
            return logits(hidden)

        network.logits = observed  # a tied head has no layer of its own
        undo.callback(delattr, network, "logits")
        return
    try:
        layer = network.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        raise UsageError(f"the network has no linear layer {name}")
    undo.callback(layer.register_forward_pre_hook(lambda _, args: recorder.add(name, args[0])).remove)


def _follow_padding(network: Qwen35, undo: ExitStack, begin: Callable[[Window], None]) -> None:
    """Tell the window of every layer before it is computed."""
    for module in network.modules():
        if isinstance(module, DecoderLayer):
            undo.callback(module.register_forward_pre_hook(lambda _, args: begin(args[2])).remove)


def _valid(x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """The rows `[M, K]` of x `[B, T, ...]` that are not padding."""
    return (x.flatten(0, -2) if valid is None else x[valid].flatten(0, -2)).detach()
