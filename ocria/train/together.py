"""Several single-thread training processes that average their weights by the clock.

Each process takes as many steps as its core allows; every few seconds all meet and take the mean of their
weights, weighted by the steps taken (local SGD). A core that is busy with other work slows nobody else down,
which per-step gradient averaging would.
"""

import os
import time

import torch
import torch.distributed as dist

SECONDS = 12


class Together:
    """With one process every call is free."""

    def __init__(self, rank: int, processes: int, port: int):
        self.rank, self.processes = rank, processes
        self.last = time.monotonic() // SECONDS
        self.steps = 0
        if processes > 1:
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
            dist.init_process_group("gloo", rank=rank, world_size=processes)

    def due(self) -> bool:
        """Whether a clock tick passed since the last meeting; call it once after each step."""
        self.steps += 1
        return self.processes == 1 or time.monotonic() // SECONDS != self.last

    @torch.no_grad()
    def meet(self, module: torch.nn.Module, clock: float, lines: int) -> tuple[float, int]:
        """Average the module's weights in place.

        `lines` is what this process trained on since the last meeting. Returns the clock of rank 0 and the
        lines of all.
        """
        if self.processes == 1:
            return clock, lines
        parameters = list(module.parameters())
        flat = torch.cat([p.flatten() for p in parameters]) * self.steps
        totals = torch.tensor([float(self.steps), clock if self.rank == 0 else 0.0, float(lines)], dtype=torch.double)
        dist.all_reduce(flat)
        dist.all_reduce(totals)
        steps, clock, lines = totals.tolist()
        for p, mean in zip(parameters, flat.div_(steps).split([p.numel() for p in parameters]), strict=True):
            p.copy_(mean.view_as(p))
        self.steps, self.last = 0, time.monotonic() // SECONDS
        return clock, int(lines)

    def close(self) -> None:
        """Leave together: a process that just exits aborts, and is taken for a failure."""
        if self.processes > 1:
            dist.barrier()
            dist.destroy_process_group()
