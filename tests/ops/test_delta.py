"""The forms of the gated delta rule agree with its definition, in fp64 where rounding plays no part."""

import pytest
import torch

from ocria.ops.delta import delta_chunk, delta_recurrent, delta_step_, normalise_qk


def draw(batch, heads, rows, dk, dv, dtype=torch.float64):
    q, k = torch.randn(2, batch, heads, rows, dk, dtype=dtype)
    q, k = (torch.nn.functional.normalize(t, dim=-1) for t in (q, k))
    v = torch.randn(batch, heads, rows, dv, dtype=dtype)
    g = -torch.rand(batch, heads, rows, dtype=dtype) * 2
    beta = torch.rand(batch, heads, rows, dtype=dtype)
    return q, k, v, g, beta, torch.randn(batch, heads, dk, dv, dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3, 5), (2, 3, 9, 4, 7), (3, 2, 70, 8, 4)])
def test_steps_equal_the_recurrence(shape):
    q, k, v, g, beta, state = draw(*shape)
    outputs, expected = delta_recurrent(q, k, v, g, beta, state)
    ours, before = state.clone(), state.clone()
    for t in range(shape[2]):
        o = delta_step_(q[:, :, t], k[:, :, t], v[:, :, t], g[:, :, t], beta[:, :, t], ours)
        assert torch.allclose(o, outputs[:, :, t], atol=1e-10)
    assert torch.allclose(ours, expected, atol=1e-10)
    assert torch.equal(state, before), "the recurrence must not write its input"


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("start", [True, False])
def test_chunks_equal_the_recurrence(chunk, start):
    q, k, v, g, beta, state = draw(2, 3, 67, 8, 5)
    state = state if start else torch.zeros_like(state)
    o, final = delta_chunk(q, k, v, g, beta, state if start else None, chunk)
    expected_o, expected = delta_recurrent(q, k, v, g, beta, state)
    assert torch.allclose(o, expected_o, atol=1e-9)
    assert torch.allclose(final, expected, atol=1e-9)


def test_padding_rows_leave_the_state_alone():
    """g = 0 and beta = 0: bit for bit, whatever q, k and v are."""
    q, k, v, *_, state = draw(2, 2, 1, 6, 4, torch.float32)
    ours = state.clone()
    delta_step_(q[:, :, 0], k[:, :, 0], v[:, :, 0], torch.zeros(2, 2), torch.zeros(2, 2), ours)
    assert torch.equal(ours, state)


@pytest.mark.parametrize("groups", [1, 3])
def test_normalise(groups):
    qk = torch.randn(2, 5, 8, 7)
    q, k = normalise_qk(qk, groups)
    assert q.shape == k.shape == (2, 4 * groups, 5, 7)
    lengths = torch.full((2, 4 * groups, 5), 1.0)
    assert torch.allclose(k.norm(dim=-1), lengths, atol=1e-5)
    assert torch.allclose(q.norm(dim=-1), lengths * 7**-0.5, atol=1e-5)
    assert torch.equal(k[:, 0], k[:, groups - 1])
