"""Settings of an engine, and what they come to on a device."""

from dataclasses import dataclass

import torch

from ocria.errors import UsageError

ACTIVATIONS = ("auto", "full", "quantised")
"""Whether inputs are quantised where the weights say so."""
RULES = ("exact", "token", "block")
"""How drafts of a request that samples are accepted (`ocria.ops.verify`)."""
MOST_DRAFT_ROWS = 64
RINGS = (2, 4, 8, 16, 32, 64, 128)
_PLAIN_RING = 16
"""Rows of the ring without drafts: the checkpoint, 64 KiB a head of 128 x 128, is then written in one step of 15,
while the rows replayed in each step stay a tenth of it."""
KV_CACHES = {"full": None, "fp8": torch.float8_e4m3fn}
"""Dtypes of cached keys and values by the option's name; None: that of the network."""
_STEPS_IN_RING = 4
"""With drafts the ring holds this many full steps on CUDA. On the CPU it holds two, the least: a history that is long
costs as much in every step as folding it once."""
_GRAPH_BYTES = 1 << 30
_AT_LEAST_1 = (
    "max_batch", "prefill_rows", "encoder_patches", "max_len", "memory_bytes", "admit_group", "graph_memory_bytes",
    "draft_rows",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Sizes and policies; the dtype and the device are the network's own.

    `max_batch`: most requests that run at once. `max_len`: most rows (prompt and output) of a request; None: what
    the checkpoint and the memory allow. `memory_bytes`: for everything that the plan counts, the weights included;
    None: half of the free memory beside the weights. `prefill_rows`: padded rows of one prefill pass; longer
    prompts are cut into chunks. `encoder_patches`: patches of one pass of the vision encoder (an image that is
    larger gets a pass of its own). `admit_group`: new requests wait until this many can start together, unless
    fewer are left or nothing runs; None: a quarter of `max_batch`. `stream_interval_s`: text of a request is sent
    at most this often. `tick_interval_s`: likewise for EngineTick.

    Levers of speed, each of which can be switched off alone. `compile`: the step through torch.compile. `graph`:
    steps are replayed as CUDA graphs; None: on CUDA. `overlap`: a step is launched before the tokens of the one
    before are read on the host; None: on CUDA. `ring`: rows of recent inputs that the Gated DeltaNet layers replay
    over their checkpoint, one of `RINGS`; 0: the state advances in every step, possible without drafts only; None:
    `resolve` chooses. `draft`: what proposes tokens, `auto`, `none`, or names and folders of drafters (see
    `ocria.runtime.drafting`). `draft_rows`: rows of every step with drafts, the last token and the drafts behind it;
    None: chosen step by step by what drafts bring and cost, up to what suits the drafter. `verify`: one of `RULES`:
    with `exact` an answer is the same with any drafts, the others keep its distribution and accept more. `activations`:
    one of `ACTIVATIONS`: inputs of quantised weights stay as they are (`full`) or are quantised where the checkpoint
    says so; `auto`: on CUDA they are, on the CPU, where that saves nothing, they are not.
    `graph_memory_bytes`: what captured graphs may take, batch sizes beyond it run without; None: 1 GiB. `kv_cache`: one
    of `KV_CACHES`; with `fp8` half the memory of keys and values, rounded by the scales of the checkpoint or by one.

    Raises UsageError for values out of range.
    """

    max_batch: int = 64
    max_len: int | None = None
    memory_bytes: int | None = None
    prefill_rows: int = 2048
    encoder_patches: int = 4096
    admit_group: int | None = None
    stream_interval_s: float = 0.05
    tick_interval_s: float = 0.25
    compile: bool = False
    graph: bool | None = None
    overlap: bool | None = None
    ring: int | None = None
    draft: str = "none"
    draft_rows: int | None = None
    verify: str = "exact"
    activations: str = "auto"
    graph_memory_bytes: int | None = None
    kv_cache: str = "full"

    def __post_init__(self):
        for name in _AT_LEAST_1:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if self.ring is not None and self.ring not in (0, *RINGS):
            raise UsageError(f"ring must be 0 or one of {', '.join(map(str, RINGS))}, got {self.ring}")
        if self.draft_rows is not None and self.draft_rows > MOST_DRAFT_ROWS:
            raise UsageError(f"draft_rows must be at most {MOST_DRAFT_ROWS}, got {self.draft_rows}")
        if self.verify not in RULES:
            raise UsageError(f"verify must be one of {', '.join(RULES)}, got {self.verify!r}")
        if self.activations not in ACTIVATIONS:
            raise UsageError(f"activations must be one of {', '.join(ACTIVATIONS)}, got {self.activations!r}")
        if self.kv_cache not in KV_CACHES:
            raise UsageError(f"kv_cache must be one of {', '.join(KV_CACHES)}, got {self.kv_cache!r}")

    @property
    def group(self) -> int:
        """Requests that start together."""
        return min(self.max_batch, self.admit_group or max(1, self.max_batch // 4))


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """Options with every choice made; the names are those of `EngineOptions`. `rows`: most rows of one slot in a
    step, 1 without drafts. `activations`: `quantised` where some are, else `full`. `draft`: the names of the sources,
    `none` without any. `max_len` and `memory_bytes` stay None where the memory decides (see `PageBudget`)."""

    max_batch: int
    max_len: int | None
    memory_bytes: int | None
    prefill_rows: int
    encoder_patches: int
    group: int
    stream_interval_s: float
    tick_interval_s: float
    compile: bool
    graph: bool
    overlap: bool
    ring: int
    rows: int
    draft: str
    draft_rows: int | None
    verify: str
    activations: str
    graph_memory_bytes: int
    kv_cache: str

    @property
    def kv_dtype(self) -> torch.dtype | None:
        """Of cached keys and values; None: that of the network."""
        return KV_CACHES[self.kv_cache]

    def levers(self) -> str:
        """Which levers are on, for people: `graph off, overlap off, compile off, ring 16, draft none`."""
        switches = {"graph": self.graph, "overlap": self.overlap, "compile": self.compile}
        states = [f"{name} {'on' if on else 'off'}" for name, on in switches.items()]
        kv = [] if self.kv_dtype is None else [f"KV cache {self.kv_cache}"]
        states += [f"ring {self.ring or 'off'}", *kv, f"activations {self.activations}", f"draft {self._draft()}"]
        return ", ".join(states)

    def _draft(self) -> str:
        if self.rows == 1:
            return self.draft
        return f"{self.draft} in steps of {'' if self.draft_rows else 'up to '}{self.rows} rows, verified {self.verify}"


def quantises(options: EngineOptions, device: torch.device) -> bool:
    """Whether inputs are quantised on a device where weights say so."""
    return options.activations == "quantised" or (options.activations == "auto" and device.type == "cuda")


def resolve(
    options: EngineOptions, device: torch.device, rows: int = 1, sources: str = "none", inputs: bool = False
) -> ResolvedOptions:
    """What the options mean on a device, with drafts of `sources` in steps of up to `rows` rows; inputs: there are
    weights that say that their inputs are quantised. Raises UsageError for a lever that the device, the drafter or
    another option rules out: nothing that was asked for is left out silently.
    """
    cuda = device.type == "cuda"
    if options.graph and not cuda:
        raise UsageError(f"there are no CUDA graphs on the device {device}", cure="Leave graph to its default.")
    ring = _ring(rows, cuda) if options.ring is None else options.ring
    if ring < 2 * rows and (ring or rows > 1):
        raise UsageError(f"a ring of {ring} rows is too small for steps of {rows}", cure=f"Use at least {2 * rows}.")
    graph = cuda if options.graph is None else options.graph
    return ResolvedOptions(
        max_batch=options.max_batch,
        max_len=options.max_len,
        memory_bytes=options.memory_bytes,
        prefill_rows=options.prefill_rows,
        encoder_patches=options.encoder_patches,
        group=options.group,
        stream_interval_s=options.stream_interval_s,
        tick_interval_s=options.tick_interval_s,
        compile=options.compile,
        graph=graph,
        overlap=cuda if options.overlap is None else options.overlap,
        ring=ring,
        rows=rows,
        draft=sources,
        draft_rows=options.draft_rows,
        verify=options.verify,
        activations="quantised" if inputs and quantises(options, device) else "full",
        graph_memory_bytes=(options.graph_memory_bytes or _GRAPH_BYTES) if graph else 0,
        kv_cache=options.kv_cache,
    )


def _ring(rows: int, cuda: bool) -> int:
    """Where nobody asks: on the CPU the state stays in the cache, and replaying costs more than writing it."""
    if rows == 1:
        return _PLAIN_RING if cuda else 0
    steps = _STEPS_IN_RING if cuda else 2
    return max(_PLAIN_RING, 1 << (steps * rows - 1).bit_length())
