"""Which published model a file of adapters is for."""

from typing import Any

import pytest
import torch
from support.tiny_networks import FAMILIES, MATCHES, adapt, tiny_networks
from torch import nn

from ldm.adapters.adapter_files import to_file
from ldm.adapters.adapter_names import kohya_names
from ldm.adapters.layer import adapters_in
from ldm.errors import Fault
from ldm.training.groups import named_layers
from lun.convert import known_layers
from lun.convert.known_layers import VERSION, known_adapters

CONFIGS = {"sd15": "SD 1.x", "sd21": "SD 1.x", "sdxl": "SDXL", "sd3": "SD 3"}


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configs of which networks were built, tiny ones."""
    configs: list[str] = []

    def build(config: str) -> dict[str, nn.Module]:
        configs.append(config)
        return tiny_networks(next(family for word, family in CONFIGS.items() if f"/{word}" in config))

    monkeypatch.setattr(known_layers, "_without_memory", build)
    return configs


def file_of(family: str) -> dict[str, Any]:
    networks, record = tiny_networks(family), FAMILIES[family].adapters
    assert record is not None
    adapt(networks, *MATCHES[family])
    layers = {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}
    return to_file(layers, kohya_names(networks, record), "kohya", None)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_is_known_by_its_layers_alone(family: str, built: list[str]) -> None:
    assert known_adapters(file_of(family), {}, "a.safetensors").family is FAMILIES[family]


def test_what_a_file_says_is_looked_at_first_and_its_prediction_is_kept(built: list[str]) -> None:
    found = known_adapters(file_of("SD 1.x"), {VERSION: "sd_v2_v"}, "a.safetensors")
    assert [config.partition("/sd21")[1] for config in built] == ["/sd21"]
    assert (found.family.name, found.prediction) == ("sd2", "v_prediction")


def test_widths_of_no_published_model_are_said_and_unknown_layers_refused(
    built: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    state = {key: torch.cat([value, value]) if "lora_up" in key else value for key, value in file_of("SD 1.x").items()}
    with caplog.at_level("WARNING", "lun"):
        assert known_adapters(state, {VERSION: "sd_v1"}, "a.safetensors").family.name == "sd1"
    assert "widths of no published model" in caplog.text
    with pytest.raises(Fault, match="MOD03") as caught:
        known_adapters({"lora_unet_double_blocks_0.alpha": torch.ones(())}, {}, "flux.safetensors")
    assert "flux.safetensors does not fit" in caught.value.what
