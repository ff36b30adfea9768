"""Every kernel of the package compiles for Hopper and Blackwell, and the bench that says so finds faults.

The bench runs in a process of its own: here kernels are interpreted and cannot be compiled.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")

from ocria.errors import UsageError

BENCH = Path(__file__).resolve().parents[2] / "bench" / "aot.py"

FAULTY = """
import triton
import triton.language as tl
from ocria.ops.kernels.aot import AotVariant


@triton.jit
def helper(x):
    return x + 1


@triton.jit
def live_values(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for s in range(n):
        a = a * a + tl.load(x + s)
    tl.store(y + i, helper(a))


@triton.jit
def forgotten(x):
    tl.store(x, 1.0)


@triton.jit
def product(x):
    return tl.dot(x, x)


@triton.jit
def undeclared(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(x + i, product(tl.load(x + i)))


@triton.jit
def wrong(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), no_such_name)


def aot_variants():
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    return [
        AotVariant("small", live_values, types, {"BLOCK": 128}, num_warps=1),
        AotVariant("spilling", live_values, types, {"BLOCK": 16384}, num_warps=1),
        AotVariant("no dot", live_values, types, {"BLOCK": 64}, num_warps=1, needs_dot=True),
        AotVariant("product", undeclared, {"x": "*fp32"}, {"BLOCK": 16}),
        AotVariant("broken", wrong, {"x": "*fp32"}, {"BLOCK": 64}),
        AotVariant("argument missing", live_values, {"x": "*fp32", "y": "*fp32"}, {"BLOCK": 64}),
    ]
"""


def run(*arguments: str) -> tuple[int, dict, str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, BENCH, *arguments], capture_output=True, text=True, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout


def test_every_kernel_compiles_without_spills():
    status, document, table = run("--quick")
    assert document["uncovered"] == [], "kernels that no aot_variants() names"
    assert [row for row in document["rows"] if row["faults"]] == []
    assert {row["capability"] for row in document["rows"]} == {90, 100}
    assert status == 0, table


def test_faults_are_found(tmp_path):
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY, encoding="utf-8")
    status, document, table = run("--file", str(file), "--capability", "90")
    assert status == 1
    faults = {row["variant"]: row["faults"] for row in document["rows"]}
    assert faults["small"] == []
    assert "spilled registers" in faults["spilling"][0]
    assert faults["no dot"] == ["no tensor-core instruction"]
    assert faults["product"] == ["a product, but needs_dot is not set"]
    assert "no_such_name" in faults["broken"][0]
    assert "n missing" in faults["argument missing"][0]
    assert document["uncovered"] == ["faulty.forgotten"]
    assert document["faults"] == 6
    assert table.count("FAULT") == 6


def test_an_interpreted_kernel_is_refused():
    import triton

    from ocria.ops.kernels.aot import AotVariant, compile_variant

    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("kernels are compiled in this process")

    @triton.jit
    def nothing(x):
        pass

    with pytest.raises(UsageError, match="TRITON_INTERPRET"):
        compile_variant(AotVariant("nothing", nothing, {"x": "*fp32"}), 90)


def test_the_shapes_are_those_of_the_configuration():
    from roofline import config_4b

    from ocria.ops.kernels.aot import SHAPES_4B

    text = config_4b().text
    assert SHAPES_4B.hidden == text.hidden_size
    assert SHAPES_4B.intermediate == text.intermediate_size
    assert SHAPES_4B.vocab == text.vocab_size
    assert SHAPES_4B.linear_layers == text.layer_types.count("linear_attention")
    assert SHAPES_4B.attention_layers == text.layer_types.count("full_attention")
    assert (SHAPES_4B.key_heads, SHAPES_4B.value_heads) == (text.linear_num_key_heads, text.linear_num_value_heads)
    assert (SHAPES_4B.key_dim, SHAPES_4B.value_dim) == (text.linear_key_head_dim, text.linear_value_head_dim)
    assert (SHAPES_4B.conv_channels, SHAPES_4B.conv_kernel) == (text.conv_dim, text.linear_conv_kernel_dim)
    assert (SHAPES_4B.heads, SHAPES_4B.kv_heads) == (text.num_attention_heads, text.num_key_value_heads)
    assert (SHAPES_4B.head_dim, SHAPES_4B.rotary) == (text.head_dim, text.rotary_dim)
