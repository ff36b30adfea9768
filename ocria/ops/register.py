"""How an operation is made known to torch, and which of its forms runs.

An operation has a torch form, which runs on the CPU and which `torch.compile` sees through, and a Triton kernel,
which runs on CUDA. The kernel is registered as `torch.ops.ocria.<name>`, so that a step with it compiles as one
graph: through `triton_op` on CUDA, where Inductor sees the launch, and through `custom_op` under the Triton
interpreter (`TRITON_INTERPRET=1`), where `triton_op` cannot trace.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Kernels run in Triton's interpreter, on CPU tensors. Read once: Triton decides when a kernel is defined."""

_forced = False
_plain = False


class Op:
    """Callable like its torch form, `torch_form`."""

    def __init__(self, name: str, torch_form: Callable, launch: Callable, fake: Callable, mutates: tuple[str, ...]):
        self.name, self.torch_form = name, torch_form
        self._parts = (launch, fake, mutates)
        self._kernel: Any = None
        if INTERPRETED or torch.cuda.is_available():
            self._register()

    @property
    def kernel(self) -> Any:
        """The registered operation. Where kernels do not run it is registered at the first look: registering imports
        torch's compiler and triton, two seconds that a run on the CPU has no use for."""
        if self._kernel is None:
            self._register()
        return self._kernel

    def _register(self) -> None:
        launch, fake, mutates = self._parts
        make = torch.library.custom_op if INTERPRETED else torch.library.triton_op
        self._kernel = make(f"ocria::{self.name}", launch, mutates_args=mutates)
        self._kernel.register_fake(fake)

    def __call__(self, *arguments: Any) -> Any:
        """The kernel on CUDA or inside `force_kernels`, else the torch form. The first argument is a tensor."""
        return self.kernel(*arguments) if uses_kernels(arguments[0]) else self.torch_form(*arguments)


def register(
    name: str, *, torch_form: Callable, launch: Callable, fake: Callable, mutates: tuple[str, ...] = ()
) -> Op:
    """Register an operation.

    `torch_form`, `launch` and `fake` take the same positional arguments; `launch` is annotated with the types of a
    custom op and wraps every kernel in `wrap`. `mutates` names the arguments written in place. What is returned
    must not be a view of an argument.
    """
    return Op(name, torch_form, launch, fake, mutates)


def wrap(kernel: Any) -> Any:
    """The kernel, to be launched as `wrap(kernel)[grid](...)`; on CUDA in a way that `torch.compile` can see."""
    return kernel if INTERPRETED else torch.library.wrap_triton(kernel)


def uses_kernels(tensor: torch.Tensor) -> bool:
    """Whether operations on this tensor run as kernels."""
    return (tensor.is_cuda or _forced) and not _plain


@contextmanager
def torch_forms() -> Iterator[None]:
    """Run the torch forms on CUDA too. Training scores its weights so: in fp32, which kernels are not made for."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


@contextmanager
def force_kernels() -> Iterator[None]:
    """Run kernels on CPU tensors through the interpreter: how they are tested without a GPU.

    Raises RuntimeError unless the process started with TRITON_INTERPRET=1.
    """
    global _forced
    if not INTERPRETED:
        raise RuntimeError("kernels run on the CPU only when the process starts with TRITON_INTERPRET=1")
    before, _forced = _forced, True
    try:
        yield
    finally:
        _forced = before
