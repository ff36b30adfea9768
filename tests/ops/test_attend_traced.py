"""How Inductor sees the kernels of attend and of the norms on CUDA: one graph, in which each writes what it declares.

Traced on tensors without data in a process that does not interpret kernels; needs no GPU.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

SCRIPT = """
import json
import torch
import triton
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from ocria.ops import norm
from ocria.ops.attend import attend_op

# On a machine with a GPU they are registered from the start; here, at the first look, which a trace cannot be.
for op in (attend_op, norm.rms_norm_op, norm.add_rms_norm_op, norm.gated_rms_norm_op):
    op.kernel

class Driver:  # what the analysis of a kernel's stores asks of a GPU
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)

triton.runtime.driver.set_active(Driver())
written = []

class Traced(Exception):
    pass

def compiler(graph, inputs):
    for node in graph.graph.nodes:
        if node.target is torch.ops.higher_order.triton_kernel_wrapper_functional:
            written.append(sorted(node.kwargs["tensors_to_clone"]))
    raise Traced

def trace(function, *inputs):
    try:
        torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=compiler))(*inputs)
    except Exception as error:
        if not isinstance(error, Traced) and not isinstance(getattr(error, "inner_exception", None), Traced):
            raise

def of(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, dtype=dtype, device="cuda")

B, T, H, HKV, D, R = 2, 3, 4, 2, 64, 16
with FakeTensorMode(), torch.no_grad():
    scales = [of(D, dtype=torch.float32) for _ in range(2)]
    turns = [of(B, T, R, dtype=torch.float32) for _ in range(2)]
    cursors = [of(B, dtype=torch.int64) for _ in range(3)]
    for max_len in (64, 2048):
        caches = [of(3, max_len, HKV, D) for _ in range(2)]
        new = [of(B, T, H, 2 * D), of(B, T, HKV, D), of(B, T, HKV, D)]
        inputs = (*new, *scales, *turns, *caches, *cursors)
        trace(lambda *a: attend_op.kernel(*a[:5], 1e-6, *a[5:], 60, None, False, None, None, None), *inputs)
    x, weight = of(B, T, D), scales[0]
    trace(lambda x, w: norm.rms_norm_op.kernel(x, w, 1e-6), x, weight)
    trace(lambda x, y, w: norm.add_rms_norm_op.kernel(x, y, w, 1e-6), x, of(B, T, D), weight)
    trace(lambda x, y, w: norm.gated_rms_norm_op.kernel(x, y, w, 1e-6), x, of(B, T, D), weight)
print(json.dumps(written))
"""


def test_kernels_trace_as_one_graph_and_write_what_they_declare():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    prepared = ["keys", "q_out", "values"]
    one_part = [prepared, ["out"]]
    several_parts = [prepared, ["parts", "stats"], ["out"]]
    assert json.loads(result.stdout) == [*one_part, *several_parts, ["out"], ["added", "out"], ["out"]]
