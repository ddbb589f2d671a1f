"""LoRAs in the place of other changes: what they hold, and the errors that they say."""

import pytest
import torch
from support.adapted import KINDS, LAYERS, adapted, learned

from ldm.adapters.approximation import approximate, approximate_adapters, approximate_product, join, total_error
from ldm.adapters.arithmetic import change
from ldm.adapters.decomposition import RankRule
from ldm.errors import Fault

Tensors = dict[str, torch.Tensor]
ALL = RankRule.parse("error=1e-6")


def tensors_of(kind: str, layer: str) -> tuple[Tensors, torch.Size]:
    owner = LAYERS[layer]()
    adapter = adapted(kind, owner)
    learned(adapter)
    return {name: tensor.detach() for name, tensor in adapter.tensors().items()}, owner.weight.shape


@pytest.mark.parametrize("layer", LAYERS)
def test_a_planted_change_of_rank_4_is_found_exactly_at_rank_4(layer: str) -> None:
    shape = LAYERS[layer]().weight.shape
    generator = torch.Generator().manual_seed(3)
    planted = torch.randn(shape[0], 4, generator=generator) @ torch.randn(4, shape[1:].numel(), generator=generator)
    for rule in ("4", "error=1e-5"):
        found = approximate(planted, shape, RankRule.parse(rule))
        assert found.rank == 4 and found.error < 1e-6
        torch.testing.assert_close(change(found.tensors, shape).flatten(1), planted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_the_error_that_is_said_is_that_of_the_numbers_that_are_stored(dtype: torch.dtype | None) -> None:
    shape = torch.Size([40, 30])
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    found = approximate(matrix, shape, RankRule.parse("7"), dtype)
    measured = float((matrix - change(found.tensors, shape)).norm() / matrix.norm())
    assert found.error == pytest.approx(measured, rel=1e-5)
    assert found.tensors["alpha"].dtype == torch.float32


@pytest.mark.parametrize("layer", LAYERS)
def test_a_resized_product_is_what_is_extracted_from_its_matrix(layer: str) -> None:
    tensors, shape = tensors_of("LoRA", layer)
    rule = RankRule.parse("2")
    resized = approximate_adapters([(tensors, 1.0)], shape, rule, None, layer)
    extracted = approximate(change(tensors, shape).flatten(1), shape, rule)
    torch.testing.assert_close(change(resized.tensors, shape), change(extracted.tensors, shape), rtol=1e-4, atol=1e-5)
    assert resized.error == pytest.approx(extracted.error, rel=1e-4) and resized.error > 0.01


@pytest.mark.parametrize("layer", LAYERS)
def test_loras_are_joined_exactly_at_their_strengths_and_other_kinds_as_a_lora_of_their_sum(layer: str) -> None:
    (one, shape), (other, _), (third, _) = (tensors_of(kind, layer) for kind in ("LoRA", "rsLoRA", "LoHa"))
    wanted = 0.5 * change(one, shape) - 2 * change(other, shape)
    joined = join([(one, 0.5), (other, -2.0)], layer)
    assert joined["lora_down.weight"].shape[0] == 7
    torch.testing.assert_close(change(joined, shape), wanted, rtol=1e-4, atol=1e-5)
    parts = [(one, 0.5), (other, -2.0), (third, 1.0)]
    with pytest.raises(Fault, match="MOD03") as caught:
        join(parts, layer)
    assert "rank" in caught.value.fix
    whole = approximate_adapters(parts, shape, ALL, None, layer)
    torch.testing.assert_close(change(whole.tensors, shape), wanted + change(third, shape), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "DoRA"])
def test_an_adapter_at_another_strength_is_that_much_of_its_change(kind: str) -> None:
    tensors, shape = tensors_of(kind, "3x3, stride 2")
    torch.testing.assert_close(change(join([(tensors, -0.4)], kind), shape), -0.4 * change(tensors, shape))
    assert join([(tensors, 1.0)], kind) == tensors


def test_a_dora_is_not_summed_since_its_base_is_needed() -> None:
    tensors, shape = tensors_of("DoRA", "linear")
    for attempt in (
        lambda: join([(tensors, 0.5)], "a"),
        lambda: approximate_adapters([(tensors, 1)], shape, ALL, None, "a"),
    ):
        with pytest.raises(Fault, match="MOD03") as caught:
            attempt()
        assert "extract" in caught.value.fix


def test_the_error_in_all_is_that_of_all_layers_as_one_vector() -> None:
    generator = torch.Generator().manual_seed(6)
    changes = [torch.randn(20, 10, generator=generator) * size for size in (1.0, 5.0)]
    found = [approximate(one, one.shape, RankRule.parse("3")) for one in changes]
    left = [one - change(f.tensors, one.shape) for one, f in zip(changes, found, strict=True)]
    measured = torch.cat(left).norm() / torch.cat(changes).norm()
    assert total_error(found) == pytest.approx(float(measured), rel=1e-5)
    assert total_error([]) == 0.0


def test_a_product_of_no_size_has_no_error() -> None:
    found = approximate_product(torch.zeros(6, 2), torch.randn(2, 8), torch.Size([6, 8]), RankRule.parse("1"))
    assert (found.error, found.size) == (0.0, 0.0)
