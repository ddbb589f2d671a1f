"""All weights or none."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.files.read import read_state_dict
from ldm.files.write import write_safetensors


def fault_of(module: nn.Module, state: dict[str, Tensor]) -> Fault:
    before = {key: value.clone() for key, value in module.state_dict().items()}
    with pytest.raises(Fault) as caught:
        load_part(module, state, source="file.ckpt")
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items()), (
        "changed despite the fault"
    )
    assert caught.value.id == "MOD03"
    return caught.value


def test_a_fitting_state_is_taken_over() -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    report = load_part(target, source.state_dict(), source="x")
    assert report.loaded == 2
    assert torch.equal(source.weight, target.weight)


def test_a_missing_key_is_a_fault() -> None:
    assert "1 missing, 0 unexpected\nfirst missing: bias" in fault_of(nn.Linear(3, 2), {"weight": torch.ones(2, 3)}).why


def test_an_unexpected_key_is_a_fault() -> None:
    state = {"weight": torch.ones(2, 3), "bias": torch.ones(2), "scale": torch.ones(2)}
    assert "first unexpected: scale" in fault_of(nn.Linear(3, 2), state).why


def test_another_shape_is_a_fault() -> None:
    why = fault_of(nn.Linear(3, 2), {"weight": torch.ones(2, 4), "bias": torch.ones(2)}).why
    assert "2 tensors compared: 1 match, 1 have another shape" in why
    assert "weight [2, 4] != [2, 3]" in why


def test_a_transposed_matrix_is_another_shape() -> None:
    assert "weight [3, 1] != [1, 3]" in fault_of(nn.Linear(3, 1, bias=False), {"weight": torch.ones(3, 1)}).why


def test_a_pointwise_convolution_fits_a_linear_layer_and_back() -> None:
    linear, convolution = nn.Linear(3, 2), nn.Conv2d(3, 2, 1)
    load_part(linear, convolution.state_dict(), source="x")
    assert torch.equal(linear.weight, convolution.weight[:, :, 0, 0])
    load_part(convolution, nn.Linear(3, 2).state_dict(), source="x")


def test_ignored_keys_are_neither_loaded_nor_asked_for() -> None:
    target = nn.Linear(3, 2)
    bias = target.bias.detach().clone()
    state = {"weight": torch.ones(2, 3), "bias": torch.full((2,), 7.0), "loss.x": torch.ones(1)}
    report = load_part(target, state, source="x", ignore=("bias", "loss."))
    assert report.ignored == ("bias", "loss.x")
    assert torch.equal(target.bias, bias)
    assert torch.equal(target.weight, torch.ones(2, 3))


def test_a_module_on_meta_gets_weights_of_its_own_dtype_that_train() -> None:
    with torch.device("meta"):
        target = nn.Linear(3, 2)
    load_part(target, {"weight": torch.ones(2, 3).half(), "bias": torch.zeros(2).half()}, source="x")
    assert target.weight.dtype == torch.float32
    assert target.weight.requires_grad
    assert torch.equal(target(torch.ones(1, 3)), torch.full((1, 2), 3.0))


def test_loaded_weights_are_not_tied_to_their_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"weight": torch.ones(2, 3), "bias": torch.ones(2)})
    with torch.device("meta"):
        target = nn.Linear(3, 2)
    load_part(target, read_state_dict(path), source=str(path))
    with path.open("r+b") as file:
        file.write(b"\0" * path.stat().st_size)
    assert torch.equal(target.weight, torch.ones(2, 3))


def test_a_buffer_without_memory_is_never_left_behind() -> None:
    with torch.device("meta"):
        target = nn.Linear(3, 2)
        target.register_buffer("places", torch.arange(3), persistent=False)
    with pytest.raises(RuntimeError, match="first places"):
        load_part(target, nn.Linear(3, 2).state_dict(), source="x")


@pytest.mark.parametrize(("number", "kind"), [(float("nan"), "NaN"), (float("inf"), "infinite numbers")])
def test_broken_weights_are_refused_by_name(number: float, kind: str) -> None:
    target = nn.Linear(3, 2)
    state = {"weight": torch.ones(2, 3), "bias": torch.tensor([1.0, number])}
    with pytest.raises(Fault) as caught:
        load_part(target, state, source="file.ckpt")
    assert caught.value.id == "MOD02"
    assert caught.value.what == f"file.ckpt holds broken weights: {kind} in 1 of 2 tensors"
    assert "first bias" in caught.value.why
    assert not torch.equal(target.weight, torch.ones(2, 3))


def test_large_half_precision_weights_are_not_taken_for_broken() -> None:
    load_part(nn.Linear(3, 2), {"weight": torch.full((2, 3), 6e4).half(), "bias": torch.zeros(2)}, source="x")
