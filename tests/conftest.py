"""Kernels run in Triton's interpreter where there is no GPU. Triton looks when a kernel is defined: set it first."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
