"""Compiled blocks compute and learn what blocks as written do, one graph for pictures of every size."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.attention import BasicTransformerBlock
from support.compiled_graphs import graphs_compiled
from support.equality import differences
from support.sd3 import tiny_mmdit, told
from support.tiny_networks import SHAPE, adapt
from torch import Tensor, nn
from torch._inductor import codecache

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.modules.networks.unet import UNet
from ldm.modules.regional_compilation import (
    INDUCTOR_CACHE,
    compile_blocks,
    keep_compiled,
    repeated_blocks,
    require_compiler,
)
from ldm.torch_internals import inductors_own_folder, keep_activations

SHAPES = ((2, 4, 4), (3, 4, 6), (2, 8, 4))


def gradients(network: nn.Module, batch: int, height: int, width: int) -> dict[str, Tensor]:
    """Of one step, and the loss."""
    torch.manual_seed(0)
    network.zero_grad()
    x, context = torch.randn(batch, 4, height, width), torch.randn(batch, 5, 8)
    loss = network(x, torch.arange(batch), Conditioning(context=context)).square().mean()
    loss.backward()
    found = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    return {"loss": loss.detach(), **{name: gradient.clone() for name, gradient in found.items()}}


def adapted_unet(**settings: Any) -> UNet:
    """Of one level, with adapters."""
    torch.manual_seed(0)
    one = {"block_out_channels": [8], "down_block_types": ["CrossAttnDownBlock2D"]}
    shape = SHAPE | one | {"up_block_types": ["CrossAttnUpBlock2D"]}
    unet = UNet(from_scratch=True, **settings, **shape).train()
    adapt({"unet": unet}, "unet.*attn1.*", "unet.*conv1")
    return unet


@pytest.fixture(scope="module")
def adapted() -> UNet:
    """With adapters, dropout, and activations computed twice: all that a block may have."""
    return adapted_unet(gradient_checkpointing=True, dropout=0.2)


@pytest.fixture(scope="module")
def compiled(adapted: UNet) -> Iterator[tuple[UNet, list[dict[str, Tensor]], list[str]]]:
    """The same, compiled, with the gradients of each of `SHAPES` and the names that it had before."""
    before = [gradients(adapted, *shape) for shape in SHAPES], list(adapted.state_dict())
    torch._dynamo.reset()
    assert compile_blocks(nn.ModuleDict({"unet": adapted}), backend="eager") == 9
    yield adapted, *before
    torch._dynamo.reset()


def test_one_compilation_for_each_shape_of_block_serves_pictures_of_every_size(
    compiled: tuple[UNet, list[dict[str, Tensor]], list[str]],
) -> None:
    network, before, _ = compiled
    counts = []
    for shape, expected in zip(SHAPES, before, strict=True):
        began = graphs_compiled()
        assert differences(gradients(network, *shape), expected) == []
        counts.append(graphs_compiled() - began)
    assert counts == [3, 0, 0]


def test_for_cuda_graphs_of_single_sizes_a_network_is_one_graph_for_each_of_them() -> None:
    network = adapted_unet()
    names, sizes = list(network.state_dict()), SHAPES[:2]
    before = [gradients(network, *shape) for shape in sizes]
    torch._dynamo.reset()
    given = nn.ModuleDict({"unet": network})
    assert compile_blocks(given, dynamic=False, cuda_graphs=True, backend="eager") == 1
    counts = []
    for shape, expected in zip((*sizes, sizes[0]), (*before, before[0]), strict=True):
        began = graphs_compiled()
        assert differences(gradients(network, *shape), expected) == []
        counts.append(graphs_compiled() - began)
    torch._dynamo.reset()
    assert counts == [1, 1, 0]
    assert list(network.state_dict()) == names


def test_blocks_with_convolutions_can_be_left_as_they_are_written() -> None:
    network = adapted_unet()
    every = {type(block) for block in repeated_blocks(network)}
    count = compile_blocks(network, convolutions=False, backend="eager")
    taken = [block for block in repeated_blocks(network) if "forward" in vars(block)]
    assert count == len(taken) > 0
    assert {type(block) for block in taken} == {BasicTransformerBlock} < every


def test_blocks_of_stable_diffusion_3_learn_the_same() -> None:
    network = tiny_mmdit("medium 3.5")

    def learned(height: int) -> dict[str, Tensor]:
        network.zero_grad()
        x = torch.linspace(-1, 1, 2 * 4 * height * 8).view(2, 4, height, 8)
        network(x, torch.tensor([100.0, 900.0]), told()).square().mean().backward()
        return {name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None}

    before = [learned(height) for height in (8, 12)]
    assert compile_blocks(network, backend="eager") == 3
    counts = []
    for height, expected in zip((8, 12), before, strict=True):
        began = graphs_compiled()
        assert differences(learned(height), expected) == []
        counts.append(graphs_compiled() - began)
    assert 0 < counts[0] <= 3 and counts[1] == 0


def test_samples_and_validation_compile_nothing(compiled: tuple[UNet, list[dict[str, Tensor]], list[str]]) -> None:
    network, began = compiled[0], graphs_compiled()
    with torch.no_grad():
        network(torch.randn(5, 4, 2, 2), torch.arange(5), Conditioning(context=torch.randn(5, 7, 8)))
    assert graphs_compiled() == began


def test_the_names_of_tensors_stay(compiled: tuple[UNet, list[dict[str, Tensor]], list[str]]) -> None:
    assert list(compiled[0].state_dict()) == compiled[2]


class Block(nn.Module):
    """Whose activations are many beside its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(torch.sin(self.first(x)).exp()))  # type: ignore[no-any-return]


class Stack(nn.Sequential):
    repeated_blocks = (Block,)


def kept_by(budget: float) -> tuple[int, Tensor]:
    """The bytes that a compiled block keeps for its backward pass, and a gradient."""
    torch.manual_seed(0)
    stack, x = Stack(Block()), torch.randn(512, 8)
    compile_blocks(stack, activation_memory_budget=budget, backend="aot_eager_decomp_partition")
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: sizes.append(one.nbytes) or one, lambda one: one):
        loss = stack(x).square().mean()
    loss.backward()
    gradient = next(stack.parameters()).grad
    assert gradient is not None
    return sum(sizes), gradient


def test_a_smaller_budget_keeps_less_and_learns_the_same() -> None:
    (whole, wanted), (less, found) = kept_by(1.0), kept_by(0.2)
    keep_activations(1.0)
    torch._dynamo.reset()
    assert less < 0.5 * whole
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("wanted", [False, True])
def test_inductor_is_asked_for_cuda_graphs_by_an_option_that_it_has(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    compiler = torch.compile

    def spy(*args: Any, **settings: Any) -> Any:
        asked.append(settings["options"])
        return compiler(*args, **settings)  # which refuses options that it does not know

    monkeypatch.setattr(torch, "compile", spy)
    assert compile_blocks(Stack(Block()), cuda_graphs=wanted) == 1
    assert asked == [{"fallback_random": True, "triton.cudagraphs": wanted}]


def test_a_network_that_names_no_blocks_is_refused() -> None:
    with pytest.raises(Fault, match="CFG08") as raised:
        compile_blocks(nn.Linear(2, 2))
    assert "repeated_blocks" in raised.value.why


@pytest.mark.parametrize(("device", "variable"), [("cpu", "CXX"), ("cuda", "CC")])
def test_without_a_compiler_the_fault_says_which_is_missing(
    device: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler -O2")
    with pytest.raises(Fault, match="DEP01") as raised:
        require_compiler(device)
    assert "no-such-compiler" in raised.value.why and variable in raised.value.fix


def test_without_pythons_headers_the_fault_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("CXX", "sh")
    with pytest.raises(Fault, match="DEP01") as raised:
        require_compiler("cpu")
    assert "Python.h" in raised.value.why


def test_a_device_that_the_compiler_does_not_know_is_refused() -> None:
    with pytest.raises(Fault, match="CFG08"):
        require_compiler("mps")


def test_code_is_kept_in_the_programs_cache_unless_the_environment_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    monkeypatch.setenv(INDUCTOR_CACHE, "elsewhere")
    keep_compiled()
    assert os.environ[INDUCTOR_CACHE] == "elsewhere"
    monkeypatch.delenv(INDUCTOR_CACHE)
    keep_compiled()
    assert os.environ[INDUCTOR_CACHE] == str(tmp_path / "inductor")


def test_the_folder_that_torch_itself_writes_into_the_environment_is_not_taken_for_a_persons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers, which torch keeps there whatever the environment says, move with the code."""
    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    monkeypatch.setenv(INDUCTOR_CACHE, inductors_own_folder())
    keep_compiled()
    assert os.environ[INDUCTOR_CACHE] == str(tmp_path / "inductor")
    assert str(tmp_path / "inductor" / "precompiled_headers") == codecache._HEADER_DIR


def test_code_that_others_could_have_put_there_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    monkeypatch.setenv(INDUCTOR_CACHE, inductors_own_folder())
    (tmp_path / "inductor").mkdir()
    (tmp_path / "inductor").chmod(0o777)
    keep_compiled()
    assert not os.environ[INDUCTOR_CACHE].startswith(str(tmp_path / "inductor"))
