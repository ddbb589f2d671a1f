"""What of a ddconfig can be built."""

from typing import Any

import pytest

from ldm.errors import Fault
from ldm.modules.networks.vae import build_autoencoder, library_config

DDCONFIG: dict[str, Any] = {
    "double_z": True,
    "z_channels": 4,
    "resolution": 256,
    "in_channels": 3,
    "out_ch": 3,
    "ch": 128,
    "ch_mult": [1, 2, 4, 4],
    "num_res_blocks": 2,
    "attn_resolutions": [],
    "dropout": 0.0,
}


def test_widths_and_levels_follow() -> None:
    config = library_config(DDCONFIG, embed_dim=4)  # type: ignore[arg-type]
    assert config["block_out_channels"] == [128, 256, 512, 512]
    assert len(config["down_block_types"]) == len(config["up_block_types"]) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("double_z", False),
        ("dropout", 0.1),
        ("attn_resolutions", [32]),
        ("ch_mult", [2, 4]),
        ("ch", 100),
        ("z_channels", 16),
        ("tanh_out", True),
    ],
)
def test_what_cannot_be_built_is_named(key: str, value: object) -> None:
    with pytest.raises(Fault) as caught:
        library_config(DDCONFIG | {key: value}, embed_dim=4)  # type: ignore[arg-type]
    assert caught.value.id == "CFG03"
    assert key in caught.value.what


def test_attention_at_a_side_that_no_level_has_changes_nothing() -> None:
    assert library_config(DDCONFIG | {"attn_resolutions": [16]}, 4) == library_config(DDCONFIG, 4)  # type: ignore[arg-type]


def test_a_missing_key_is_named() -> None:
    shorter = {key: value for key, value in DDCONFIG.items() if key != "ch_mult"}
    with pytest.raises(Fault, match="missing setting ch_mult"):
        library_config(shorter, embed_dim=4)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [2**70, 2**62, -1, 0])
@pytest.mark.parametrize("key", ["in_channels", "out_ch", "num_res_blocks", "ch"])
def test_sizes_that_no_network_has_are_a_fault_and_no_error_of_torch(key: str, size: Any) -> None:
    ddconfig: Any = DDCONFIG | {"ch": 32, "ch_mult": [1, 1], key: size}
    try:
        build_autoencoder(library_config(ddconfig, embed_dim=4))
    except Fault as fault:
        assert len(f"{fault.what}{fault.why}") < 500
