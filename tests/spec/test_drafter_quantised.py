"""Drafters with quantised weights draft what drafters with the decoded weights draft."""

import pytest
import torch
from drafter_made import RandomTarget, random_drafter, small, write_folder
from test_drafter_slots import rounds, run
from torch import nn

from ocria.errors import CheckpointError
from ocria.model.prepared import PACK_BYTES
from ocria.ops.linear import Linear
from ocria.quant.formats import write_checkpoint
from ocria.quant.formats.contents import plain_linears
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.runtime.memory import checkpoint_bytes
from ocria.spec.load import load_drafter

SIZES = {"intermediate_size": 80, "head_dim": 16}
DATA = {"dflash": small(1, top=SIZES), "dflash2": small(2, top=SIZES)}
INPUT = torch.tensor(0.01)


@pytest.fixture
def folder(tmp_path, generator):
    """Call it with a configuration and a format: a drafter with FP8 and NVFP4 next to each other."""

    def make(data, form):
        source, out = tmp_path / "plain", tmp_path / "out"
        source.mkdir()
        network = random_drafter(data, generator)
        write_folder(source, data, network.state_dict())
        modules = {}
        for index, name in enumerate(sorted(plain_linears(checkpoint_infos(source)))):
            weight = network.get_submodule(name).weight.detach()
            if index % 4 == 0:
                modules[name] = quantize_nvfp4(weight, dialect=form, input_multiplier=INPUT)
            elif index % 4 != 3:
                modules[name] = quantize_fp8(weight, "channel", dialect=form)
        write_checkpoint(out, source, modules, form)
        return out, modules

    return make


def checkpoint_infos(folder):
    from ocria.model.weights import list_tensors

    return list_tensors(folder)


def decoded(folder):
    network = load_drafter(folder, dtype=torch.float32).network
    for layer in network.modules():
        if isinstance(layer, Linear) and layer.held is not None:
            layer.weight, layer.held = nn.Parameter(layer.held.dense(), requires_grad=False), None
    return network


@pytest.mark.parametrize("form", ["compressed-tensors", "modelopt"])
@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_drafts_are_those_of_the_decoded_weights(folder, generator, kind, form):
    """To the bit, context and blocks: the context has all k and v weights in one product, of several kinds."""
    out, modules = folder(DATA[kind], form)
    loaded = load_drafter(out, dtype=torch.float32)
    assert loaded.network.dtype == torch.float32
    assert loaded.parameters == sum(p.numel() for p in decoded(out).parameters())
    assert checkpoint_bytes(out, torch.float32) == loaded.network.weights
    assert loaded.network.weights.codes == sum(weight.nbytes for weight in modules.values())
    target = RandomTarget(DATA[kind], generator)
    work, slots = rounds(loaded.config, generator, 3), torch.tensor([2, 4, 1])
    ours, context = run(loaded.network, target, *work[:2], slots, work[2], prepared=True)
    theirs, expected = run(decoded(out), target, *work[:2], slots, work[2], prepared=True)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(context.tensors(), expected.tensors(), strict=True):
        assert torch.equal(one, other)
    again = load_drafter(out, dtype=torch.float32).network
    again.prepare(PACK_BYTES, inputs=True)
    rounded, _ = run(again, target, *work[:2], slots, work[2])
    assert all(part.isfinite().all() for part in rounded)
    assert not all(torch.equal(one, other) for one, other in zip(rounded, ours, strict=True))


def test_what_is_quantised_must_belong_to_the_drafter(folder):
    out, _ = folder(DATA["dflash"], "modelopt")
    config = (out / "config.json").read_text().replace('"num_hidden_layers": 3', '"num_hidden_layers": 2')
    (out / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=r"unexpected: layers\.2\."):
        load_drafter(out)
