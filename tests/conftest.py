"""What must be set before torch and triton look.

Kernels run in Triton's interpreter where there is no GPU: Triton decides when a kernel is defined. With several
workers (`pytest -n 2`) each computes on one thread, or they would wait for each other's cores.
"""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
