"""What the engine does on the device: the state of all slots, and the passes over it."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ocria.model.image import ImageConfig
from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.runtime.buffers import SlotBuffers, SlotEntry
from ocria.runtime.memory import MemoryPlan
from ocria.runtime.options import ResolvedOptions
from ocria.runtime.prefill import embed_prompts, prefill
from ocria.runtime.readback import Pending, readback_for
from ocria.runtime.rows import StepRows
from ocria.runtime.runner import StepRunner
from ocria.runtime.scheduler import Chunk
from ocria.runtime.sequence import Sequence
from ocria.runtime.step_costs import StepKind
from ocria.spec.chain import Chain
from ocria.spec.source import Admission


@dataclass(frozen=True, slots=True)
class Launched:
    """A step on its way: whose rows it has, when it was launched, how many KV rows it reads at most, what kind
    it is, its output."""

    rows: tuple[tuple[int, Sequence], ...]
    at: float
    kv_rows: int
    kind: StepKind
    output: Pending


class Worker:
    """Allocates state by a plan and runs passes on it. Everything is enqueued in the order of the calls; nothing here
    waits for the device. `allocate` comes before any pass."""

    def __init__(
        self, network: Qwen35, image: ImageConfig | None, options: ResolvedOptions, drafter: Chain | None = None
    ):
        self.network, self.image, self.options, self.drafter = network, image, options, drafter
        self.device = network.device
        self.readback = readback_for(self.device)
        self.plan = MemoryPlan.none()
        self.runner: StepRunner | None = None
        self.state: DecoderState | None = None
        self.buffers: SlotBuffers | None = None
        self._rows = StepRows.choose((), self.device)
        self.steps = 0  # launched so far
        self._replayed = 0  # of them, by the graphs of runners that are gone

    @property
    def replayed(self) -> int:
        """Steps so far that a graph ran."""
        graphs = None if self.runner is None else self.runner.graphs
        return self._replayed + (0 if graphs is None else graphs.replays)

    def allocate(self, plan: MemoryPlan) -> None:
        """State for `plan.slots` requests; the old one goes first, with all that is in it. There is no plan while
        this has not succeeded."""
        self._replayed = self.replayed
        self.runner = self.state = self.buffers = None
        self.plan, self._rows = MemoryPlan.none(), StepRows.choose((), self.device)
        if not plan.slots:
            return
        text, slots, o = self.network.config.text, plan.slots + 1, self.options
        self.state = DecoderState.allocate(
            text, slots, plan.max_len, self.network.dtype, self.device, o.ring, o.rows, o.kv_dtype
        )
        self.buffers = SlotBuffers.allocate(text, slots, plan.max_len, self.device, o.rows)
        if self.drafter is not None:
            self.drafter.allocate(slots, plan.max_len, self.device)
        self.runner = StepRunner(self.network, self.state, self.buffers, o, self.drafter)
        self.plan = plan

    def admit(self, sequences: tuple[Sequence, ...]) -> None:
        """Empty their slots, read their images, embed their prompts. One whose image is broken gets its `error`."""
        self.state.reset(sequence.slot for sequence in sequences)
        features = embed_prompts(self.network, self.image, sequences, self.options.encoder_patches)
        for sequence, tokens in zip(sequences, features, strict=True):
            if sequence.request.keep_image_tokens and tokens:
                sequence.image_tokens = torch.cat(tokens)
        if self.drafter is not None:
            self.drafter.admit([
                _admission(sequence, features[owner])
                for owner, sequence in enumerate(sequences) if sequence.error is None
            ])  # fmt: skip

    def prefill(self, chunks: list[Chunk]) -> None:
        """One chunk of each of these prompts."""
        prefill(self.network, self.state, chunks, self.drafter)

    def enter(self, sequences: Iterable[Sequence]) -> None:
        """The prompts of these requests are in the state: steps take them along from now on."""
        self.buffers.enter([_entry(sequence) for sequence in sequences])

    def retire(self, slots: Iterable[int]) -> None:
        """Steps leave these slots alone from now on."""
        self.buffers.retire(list(slots))

    def launch(self, sequences: list[Sequence], now: float, kind: StepKind) -> Launched:
        """One step of these requests."""
        owned = tuple(sorted(sequence.slot for sequence in sequences))
        if owned != self._rows.owned:  # the same in most steps
            self._rows = self.runner.choose_rows(owned)
        lengths = [sequence.kv_len(kind.rows, self.options.rows) for sequence in sequences]
        greedy = all(sequence.request.sampling is None for sequence in sequences)
        output = self.runner.run(self._rows, max(lengths), greedy, kind)
        self.steps += 1
        for sequence in sequences:
            sequence.pending += 1
        row_of = self._rows.row_of
        rows = tuple((row_of[sequence.slot], sequence) for sequence in sequences)
        return Launched(rows, now, sum(lengths), kind, self.readback.start(output))


def _admission(sequence: Sequence, features: tuple[torch.Tensor, ...]) -> Admission:
    chosen = len(sequence.tokens)
    return Admission(sequence.slot, sequence.prefill_len, chosen, sequence.guess, features, sequence.stop_id)


def _entry(sequence: Sequence) -> SlotEntry:
    sampling = sequence.request.sampling
    drawn = {}
    if sampling is not None:
        drawn = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
        drawn["seed"] = sampling.seed_of(sequence.id)
    return SlotEntry(
        sequence.slot,
        sequence.feed[-1],
        sequence.prefill_len,
        sequence.rope_delta,
        sequence.left,
        tuple(sequence.bounds.stop_ids),
        **drawn,
    )
