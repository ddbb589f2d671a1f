"""Presets that say what trains, over the network of each family: every rule of them finds something to do."""

from typing import Any

import pytest
from support.sd3 import tiny_mmdit
from support.tiny_networks import tiny_networks
from torch import nn

from ldm.training.groups import Group, named_weights
from ldm.training.optimized import OptimizedModel
from lun.config.reading.load_layers import load_layers
from lun.config.reading.presets import Preset, presets

PRESETS = {preset.name: preset for preset in presets() if preset.group == "options"}
UNETS = {"sd15": "SD 1.x", "sdxl": "SDXL"}
MMDITS = {"sd3-medium": "medium", "sd35-medium": "medium 3.5", "sd35-large": "large 3.5"}
RULES = ("training_config", "adapter_config")


def rules_of(*names: str) -> dict[str, Any]:
    params = (load_layers(names).config.get("model") or {}).get("params") or {}
    return {name: params[name] for name in RULES if params.get(name)}


def network_of(model: str) -> nn.Module:
    return tiny_mmdit(MMDITS[model]) if model in MMDITS else tiny_networks(UNETS[model])["unet"]


def trained(preset: str, model: str) -> tuple[list[Group], int]:
    """The groups that train, and how many numbers the network has. Raises the `Fault` of an idle rule."""
    networks = {"unet": network_of(model)}
    size = sum(weight.numel() for weight in networks["unet"].parameters())
    decision = OptimizedModel(**rules_of(model, preset)).decide_training(networks)
    return decision.groups(named_weights(networks)), size


def fits(preset: Preset, model: str) -> bool:
    return not preset.fits or model in preset.fits


def is_of_the_network(preset: Preset) -> bool:
    """Whether a preset has rules, and all of them are for the denoising network; words and weightings are others'."""
    recipes = rules_of(*preset.fits[:1] or ["sd15"], preset.name).values()
    rules = [rule for recipe in recipes for rule in (recipe["params"].get("rules") or {"": {}}).values()]
    matches = [match for rule in rules for match in [rule.get("match", "")]]
    flat = [one for match in matches for one in (match if isinstance(match, list) else [match])]
    return bool(flat) and all(one.startswith(("unet.", "*")) for one in flat)


RULED = [preset for preset in PRESETS.values() if is_of_the_network(preset)]
CASES = [(preset.name, model) for preset in RULED for model in (*UNETS, *MMDITS) if fits(preset, model)]


@pytest.mark.parametrize(("preset", "model"), CASES)
def test_each_rule_of_a_preset_does_something_to_each_family(preset: str, model: str) -> None:
    assert trained(preset, model)[0]


@pytest.mark.parametrize("model", [*UNETS, *MMDITS])
def test_attention_alone_trains_and_norms_and_biases_do_not_decay(model: str) -> None:
    groups, size = trained("attention-only", model)
    names = [name for group in groups for name in group.names]
    assert names and all(".attn" in name for name in names)
    assert sum(group.size for group in groups) < 0.7 * size
    groups, _ = trained("no-decay", model)
    free = [name for group in groups if group.settings.get("weight_decay") == 0 for name in group.names]
    decaying = [name for group in groups if "weight_decay" not in group.settings for name in group.names]
    assert free and all("norm" in name or name.endswith(".bias") for name in free)
    matrices = [name for name in decaying if "norm" in name]  # by which Stable Diffusion 3's norms follow the time
    assert all(name.endswith(".linear.weight") for name in matrices) and bool(matrices) == (model in MMDITS)
    assert decaying and not any(name.endswith(".bias") for name in decaying)


@pytest.mark.parametrize("model", UNETS)
def test_the_middle_and_the_way_up_can_be_frozen(model: str) -> None:
    groups, _ = trained("freeze-mid-and-up", model)
    blocks = {name.split(".")[1] for group in groups for name in group.names}
    assert "down_blocks" in blocks and not blocks & {"mid_block", "up_blocks"}
