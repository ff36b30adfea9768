"""Numbers on their way to the device: there as they were, whatever kind they are of."""

import pytest
import torch

from ocria.ops import upload as module
from ocria.ops.upload import send, upload


@pytest.mark.parametrize(
    ("values", "dtype"), [([1 << 40, -3], torch.int64), ([0.5, 2.0], torch.float32), ([True, False], torch.bool)]
)
def test_numbers_keep_their_kind(values, dtype):
    tensor = upload(values, torch.device("cpu"))
    assert (tensor.dtype, tensor.tolist()) == (dtype, values)


def test_no_numbers_have_the_dtype_asked_for():
    assert upload((), "cpu", torch.int64).dtype == torch.int64
    assert upload([7], "cpu", torch.int64).tolist() == [7]


def test_a_gpu_gets_them_through_pinned_memory_without_waiting(monkeypatch):
    """By what is called, where there is no GPU: pinned first, then a copy that does not block."""
    calls = []

    class Spy:
        def pin_memory(self):
            calls.append("pin")
            return self

        def to(self, device, **how):
            calls.append((device, how))
            return "there"

    assert send(Spy(), "cuda") == "there"
    assert calls == ["pin", ("cuda", {"non_blocking": True})]
    monkeypatch.setattr(module.torch, "tensor", lambda values, dtype: Spy())
    assert upload([1], "cuda") == "there"
