"""Every shipped model config passes the check and builds the public network, key for key."""

import hashlib
from pathlib import Path

import pytest
from torch import Tensor

from ldm.families.record import Variant
from ldm.families.registry import variant_of
from ldm.families.sd1 import SD1_BASE, SD1_INPAINTING
from ldm.families.sd2 import SD2_BASE
from ldm.families.sd3 import SD3_MEDIUM, SD35_LARGE, SD35_MEDIUM
from ldm.families.sdxl import SDXL_BASE, SDXL_INPAINTING
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.util import instantiate_from_config
from lun.cli.parser import parse
from lun.run.settings import read_settings

VAE = (83_653_863, "9190c3ec1cf5cd6d")
CLIP_L = (123_060_480, "0a16f8e4840267b5")
VIT_H = (340_387_840, "e53b7f914b17e3c5")
SD2_UNET = (865_910_724, "17ae407477a5f3ab")
BOTH = (817_720_320, "")
VAE16 = (83_819_683, "")
THREE = (123_650_304 + 694_659_840 + 4_762_310_656, "")

# Parameters and the sha256 of "key shape" lines, per part; prefixes included.
EXPECTED = {
    "sd15": ((859_520_964, "31a978d7173d3cc6"), VAE, CLIP_L, SD1_BASE),
    "sd15-inpainting": ((859_535_364, "a949138d81fff894"), VAE, CLIP_L, SD1_INPAINTING),
    "sd21-base": (SD2_UNET, VAE, VIT_H, SD2_BASE),
    "sd21-v": (SD2_UNET, VAE, VIT_H, SD2_BASE),
    "sdxl": ((2_567_463_684, "6eaa83ce0c2e5988"), VAE, BOTH, SDXL_BASE),
    "sd3-medium": ((2_028_328_000, "6482b96cc7eaf4f3"), VAE16, THREE, SD3_MEDIUM),
    "sd35-medium": ((2_243_171_520, "dc37c3ee5b5bf995"), VAE16, THREE, SD35_MEDIUM),
    "sd35-large": ((8_056_627_520, "91b96569ca430703"), VAE16, THREE, SD35_LARGE),
    "sdxl-inpainting": ((2_567_478_084, "9b60eb4c95aadfb3"), VAE, BOTH, SDXL_INPAINTING),
}


def model_of(name: str, root: Path, *options: str) -> LatentDiffusion:
    files = ["training-lightning.yaml", "training-txt2img.yaml", f"models/{name}.yaml"]
    files += [f"options/{option}.yaml" for option in options]
    argv = ["--base", *(str(root / "configs" / file) for file in files), "--data_root", str(root)]
    model: LatentDiffusion = instantiate_from_config(read_settings(parse(argv), None).config["model"])
    return model


def key_hash(prefix: str, state: dict[str, Tensor]) -> str:
    lines = sorted(f"{prefix}{key} {tuple(value.shape)}" for key, value in state.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_config_builds_the_public_network(name: str, repo_root: Path) -> None:
    *counts, variant = EXPECTED[name]
    assert isinstance(variant, Variant)
    assert (repo_root / variant.config.split()[0]).is_file()
    model = model_of(name, repo_root)
    found = []
    for part in model.part_recipes().values():
        network = part.build_on_meta()
        disk = network.to_disk(dict(network.state_dict()))
        if part.prefix == "model.diffusion_model.":
            assert variant_of(disk) is variant
        hashed = key_hash(part.prefix, disk) if all(hashed for _, hashed in counts[len(found) : len(found) + 1]) else ""
        found.append((sum(p.numel() for p in network.parameters()), hashed))
        stored = network.state_dict()
        assert not any(buffer.is_meta for name, buffer in network.named_buffers() if name not in stored)
    assert found == counts


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, ()) for name in EXPECTED]
    + [("sd15", (option,)) for option in ("locon", "lokr", "dora", "train-text-encoder", "attention-only", "no-decay")]
    + [("sdxl", ("8gb-lora",)), ("sd35-medium", ("12gb-sd3",)), ("sdxl", ("block-swap", "lora"))],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_plan_by_shape_is_that_of_the_networks_themselves(
    name: str, options: tuple[str, ...], repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(name, repo_root, *options)
    assert model.plans_by_shape()
    by_shape = model.plan_training()
    monkeypatch.setattr(LatentDiffusion, "plans_by_shape", lambda self: False)
    whole = model_of(name, repo_root, *options).plan_training()
    assert (by_shape.parts, by_shape.changes_base) == (whole.parts, whole.changes_base)
    both = [
        [(group.label, group.settings, group.names, [one.shape for one in group.parameters]) for group in plan.groups]
        for plan in (by_shape, whole)
    ]
    assert both[0] == both[1]


def test_every_model_config_is_tested(repo_root: Path) -> None:
    assert {path.stem for path in (repo_root / "configs/models").glob("*.yaml")} == set(EXPECTED)


def test_the_768_pixel_model_predicts_v(repo_root: Path) -> None:
    model = model_of("sd21-v", repo_root)
    assert (model.objective.prediction, model.image_size) == ("v", 96)
