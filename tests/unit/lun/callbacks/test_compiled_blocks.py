"""Which runs compiled blocks have no place in, and what is then said."""

from typing import Any

import pytest
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from lun.callbacks.compiled_blocks import REFUSED, CompiledBlocks
from lun.strategies.combinations import TABLE


@pytest.mark.parametrize("budget", [-0.1, 1.1, float("nan")])
def test_a_budget_that_is_no_share_is_refused(budget: float) -> None:
    with pytest.raises(Fault, match="CFG08") as told:
        CompiledBlocks(activation_memory_budget=budget)
    assert "from 0 to 1" in told.value.why


@pytest.mark.parametrize("strategy", TABLE)
def test_every_strategy_takes_them_or_is_refused_by_name(strategy: str) -> None:
    found = fault_of(tiny_model(), strategy)
    assert (found is not None) == (strategy in REFUSED)
    assert found is None or strategy in str(found)


def test_a_quantised_base_is_refused() -> None:
    model = tiny_model()
    model.quantisation = object()
    found = fault_of(model, "one device")
    assert found is not None and "base_config" in found.fix


def test_a_model_without_blocks_is_refused() -> None:
    autoencoder = object.__new__(AutoencoderKL)
    found = fault_of(autoencoder, "one device")
    assert found is not None and "AutoencoderKL" in found.why


@pytest.mark.parametrize("target", ["unet.UNet", "mmdit.MMDiT", "compvis.UNetModel"])
def test_each_shipped_network_names_its_blocks(target: str) -> None:
    model = tiny_model()
    model.unet_config = {"target": f"ldm.modules.networks.{target}", "params": {}}
    assert fault_of(model, "one device") is None


def fault_of(model: Any, strategy: str) -> Fault | None:
    """What a run on a device that is not known yet would be told."""
    try:
        CompiledBlocks().require_run(model, strategy, None)
    except Fault as fault:
        return fault
    return None
