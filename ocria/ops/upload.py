"""The way of the host's numbers to the device.

A plain copy waits until everything enqueued before it is done, and with it the host, which should be launching the
next step by then. Through pinned memory a copy is enqueued like a kernel; torch's allocator hands the memory out again
once the copy is done.
"""

import torch


def upload(values: list | tuple, device: str | torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """These numbers on the device; dtype None: int64, fp32 or bool, as they are."""
    return send(torch.tensor(values, dtype=dtype), device)


def send(tensor: torch.Tensor, device: str | torch.device) -> torch.Tensor:
    """A tensor in main memory on the device, where that is another; nobody waits for it."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
