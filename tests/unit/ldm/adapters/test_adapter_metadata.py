"""What files of adapters say about themselves."""

import json

import pytest
import torch
from support.adapted import KINDS, LAYERS, adapted

from ldm.adapters.adapter_metadata import adapter_metadata
from ldm.families.sd2 import SD2

NETWORK = {"input_blocks.0.0.weight": torch.zeros(1, 4, 3, 3, device="meta")}


@pytest.mark.parametrize(
    ("kind", "module", "arguments"),
    [
        ("LoRA", "networks.lora", {}),
        ("DoRA", "lycoris.kohya", {"algo": "lora", "dora_wd": "True", "wd_on_output": "False"}),
        ("LoHa", "lycoris.kohya", {"algo": "loha"}),
        ("LoKr, whole", "lycoris.kohya", {"algo": "lokr"}),
    ],
)
def test_kohyas_keys_say_the_kind_its_size_and_the_version_of_the_base(
    kind: str, module: str, arguments: dict[str, str]
) -> None:
    layers = {name: adapted(kind, make()).tensors() for name, make in LAYERS.items()}
    said = adapter_metadata(layers, SD2, NETWORK, "v_prediction", {"ss_steps": "4"})
    assert said["ss_network_module"] == module
    assert json.loads(said["ss_network_args"]) == arguments
    assert (said["ss_base_model_version"], said["ss_v2"], said["ss_steps"]) == ("sd_v2_v", "True", "4")
    assert said["modelspec.architecture"].endswith("/lora")
    if kind == "LoRA":
        assert (said["ss_network_dim"], said["ss_network_alpha"]) == (str(KINDS[kind][1]["rank"]), "2")


def test_ranks_that_differ_are_not_told_as_one() -> None:
    layers = {str(rank): adapted("LoRA", LAYERS["linear"](), rank=rank).tensors() for rank in (2, 3)}
    assert adapter_metadata(layers, SD2, NETWORK, "epsilon", {})["ss_network_dim"] == "Dynamic"
