"""How a step runs: eagerly, compiled, or replayed as one CUDA graph."""

from collections.abc import Callable

import torch

from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.runtime.buffers import SlotBuffers
from ocria.runtime.graphs import StepGraphs
from ocria.runtime.options import ResolvedOptions
from ocria.runtime.rows import StepRows
from ocria.runtime.step import StepInput, StepOutput, step
from ocria.runtime.step_costs import StepKind
from ocria.spec.chain import Chain

Step = Callable[[StepInput], StepOutput]


class StepRunner:
    """Runs steps over one state. `choose_rows` says how the slots of a step are laid out for this way of running."""

    def __init__(
        self,
        network: Qwen35,
        state: DecoderState,
        buffers: SlotBuffers,
        options: ResolvedOptions,
        drafter: Chain | None = None,
    ):
        self._device = network.device
        self._choose = StepRows.bucketed if options.graph else StepRows.leading if options.compile else StepRows.choose

        def run(rows: StepInput) -> StepOutput:
            return step(network, state, buffers, rows, drafter, options.verify)

        self._run: Step = run
        if options.compile:
            from ocria.runtime.compiled import compile_step

            self._run = compile_step(network, state, buffers, drafter, options.verify)
        self.graphs = StepGraphs(self._run, options.graph_memory_bytes, state.max_len) if options.graph else None

    def choose_rows(self, owned: tuple[int, ...]) -> StepRows:
        """The rows of a step of these slots, ascending."""
        return self._choose(owned, self._device)

    @torch.inference_mode()
    def run(self, rows: StepRows, kv_len: int, greedy: bool, kind: StepKind) -> StepOutput:
        """Launch one step. The output of a graph is overwritten by the next step of its kind."""
        inputs = StepInput(rows.slots, kv_len, rows.first_slot, greedy, kind.rows, kind.network)
        return self._run(inputs) if self.graphs is None else self.graphs.run(inputs)
