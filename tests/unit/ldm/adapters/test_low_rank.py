"""LoRA and DoRA: scales, and the axis of DoRA's lengths."""

import pytest
import torch
from support.adapted import LAYERS, adapted, learned

from ldm.adapters.arithmetic import patched
from ldm.adapters.low_rank import LoRA, column_lengths
from ldm.errors import Fault


def test_alpha_is_the_rank_where_nobody_says_otherwise() -> None:
    adapter = LoRA(LAYERS["linear"](), torch.Generator(), rank=4)
    assert adapter.scale == 1.0
    assert float(adapter.alpha) == 4.0


def test_a_rank_stabilized_scale_is_one_over_the_root_and_is_stored_as_the_alpha_that_gives_it() -> None:
    adapter = LoRA(LAYERS["linear"](), torch.Generator(), rank=16, alpha=8.0, rank_stabilized=True)
    assert adapter.scale == 2.0
    assert float(adapter.tensors()["alpha"]) / 16 == 2.0


@pytest.mark.parametrize("layer", LAYERS)
def test_pissa_begins_with_the_largest_part_of_the_weight_and_subtracts_it(layer: str) -> None:
    owner = LAYERS[layer]()
    before = owner.weight.detach().clone()
    adapter = adapted("PiSSA", owner)
    values = torch.linalg.svdvals(before.flatten(1))
    part = adapter.scale * adapter.up.flatten(1) @ adapter.down.flatten(1)
    left = torch.linalg.svdvals(before.flatten(1) - part)
    torch.testing.assert_close(left[:-3], values[3:], rtol=1e-4, atol=1e-5)
    assert torch.equal(owner.weight, before) and not adapter.delta().any()
    learned(adapter)
    tensors = adapter.tensors()
    assert tensors["lora_down.weight"].shape[0] == 6
    torch.testing.assert_close(patched(before, tensors), adapter.merged(before), rtol=1e-5, atol=1e-5)


def test_pissa_has_no_more_directions_than_the_weight() -> None:
    with pytest.raises(Fault, match="CFG03") as caught:
        adapted("PiSSA", LAYERS["linear"](), rank=13)
    assert "12" in caught.value.fix


def test_a_dora_trains_the_length_of_each_inputs_column() -> None:
    layer = LAYERS["3x3, stride 2"]()
    adapter = adapted("DoRA", layer)
    learned(adapter)
    merged = adapter.merged(layer.weight)
    torch.testing.assert_close(column_lengths(merged), adapter.tensors()["dora_scale"].abs())
    assert adapter.tensors()["dora_scale"].shape == (1, 12, 1, 1)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_lengths_are_measured_in_fp32(half: torch.dtype) -> None:
    weight = LAYERS["linear"]().weight.to(half)
    assert column_lengths(weight).dtype == torch.float32
