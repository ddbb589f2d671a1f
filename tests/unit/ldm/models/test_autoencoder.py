"""The autoencoder's keys, weights and shapes."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.loaders.single_file_utils import convert_ldm_vae_checkpoint
from torch import Tensor

from ldm.errors import Fault
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import FIRST_STAGE
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.autoencoder_plan import refuse_quantised_base
from ldm.modules.networks.vae import keep_last_layer_precise

SD: dict[str, Any] = {
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
DEMO = SD | {"resolution": 32, "ch": 32, "ch_mult": [1, 2, 2], "num_res_blocks": 1}
TINY = DEMO | {"ch_mult": [1, 1]}
BARE = {"quant_conv": False}


def build(ddconfig: dict[str, Any], **options: Any) -> AutoencoderKL:
    return AutoencoderKL(ddconfig, embed_dim=4, **{"from_scratch": True, **options})  # type: ignore[arg-type]


def on_disk(model: AutoencoderKL) -> dict[str, Tensor]:
    return model.to_disk(model.state_dict())


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_stable_diffusions_keys_and_shapes_are_exact() -> None:
    with torch.device("meta"):
        model = build(SD)
    table = "\n".join(sorted(f"{FIRST_STAGE}{key} {tuple(value.shape)}" for key, value in on_disk(model).items()))
    assert sum(p.numel() for p in model.parameters()) == 83_653_863
    assert hashlib.sha256(table.encode()).hexdigest()[:16] == "9190c3ec1cf5cd6d"


def test_stable_diffusion_3s_has_16_channels_and_no_convolutions_around_a_latent() -> None:
    with torch.device("meta"):
        model = AutoencoderKL(SD | {"z_channels": 16} | BARE, 16, from_scratch=True)  # type: ignore[arg-type]
    assert sum(p.numel() for p in model.parameters()) == 83_819_683
    assert len(on_disk(model)) == 244 and not any("quant_conv" in key for key in on_disk(model))


def test_without_these_convolutions_moments_are_the_encoders(tmp_path: Path) -> None:
    model = build(TINY | BARE)
    x = torch.linspace(-1, 1, 3 * 8 * 8).view(1, 3, 8, 8)
    with torch.no_grad():
        moments = model.encode_moments(x)
        assert torch.equal(moments, model.network.encoder(x))
        assert torch.equal(model.decode(moments[:, :4]), model.network.decode(moments[:, :4]).sample)
    write_safetensors(tmp_path / "vae.safetensors", on_disk(model))
    again = build(TINY | BARE, from_scratch=False, ckpt_path=str(tmp_path / "vae.safetensors"))
    assert equal(on_disk(model), on_disk(again))


def test_the_demos_autoencoder_has_its_size() -> None:
    with torch.device("meta"):
        model = build(DEMO)
    assert sum(p.numel() for p in model.parameters()) == 954_567
    assert (model.downsampling, model.z_channels) == (4, 4)


def test_the_library_converts_our_keys_to_its_own() -> None:
    model = build(TINY)
    converted = convert_ldm_vae_checkpoint(on_disk(model), dict(model.network.config))
    assert equal(converted, dict(model.network.state_dict()))


def test_going_to_disk_and_back_changes_no_bit() -> None:
    model = build(TINY)
    assert on_disk(model)["encoder.mid.attn_1.q.weight"].ndim == 4
    assert equal(model.from_disk(on_disk(model)), model.state_dict())
    assert equal(model.from_disk(model.state_dict()), model.state_dict())


def test_moments_and_pictures_have_their_shapes() -> None:
    model = build(DEMO)
    with torch.no_grad():
        moments = model.encode_moments(torch.zeros(1, 3, 16, 16))
        pictures = model.decode(moments[:, :4])
    assert moments.shape == (1, 8, 4, 4)
    assert pictures.shape == (1, 3, 16, 16)


def test_moments_are_those_of_the_library() -> None:
    model = build(TINY)
    x = torch.linspace(-1, 1, 3 * 8 * 8).view(1, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(model.encode_moments(x), model.network.encode(x).latent_dist.parameters)


@pytest.mark.parametrize("prefix", [FIRST_STAGE, "vae.", ""])
def test_weights_come_from_a_file(prefix: str, tmp_path: Path) -> None:
    source = build(TINY)
    state = {prefix + key: value.half() for key, value in on_disk(source).items()}
    path = str(tmp_path / "x.safetensors")
    write_safetensors(path, state | {prefix + "loss.logvar": torch.ones(1)})
    model = build(TINY, ckpt_path=path, from_scratch=False)
    assert model.loaded_from == path
    assert equal(model.state_dict(), {key: value.half().float() for key, value in source.state_dict().items()})


def test_weights_come_from_a_pipelines_folder(tmp_path: Path) -> None:
    source = build(TINY)
    source.network.save_pretrained(tmp_path / "vae")
    assert equal(build(TINY, ckpt_path=str(tmp_path)).state_dict(), source.state_dict())


def test_attention_names_from_before_2023_are_known() -> None:
    model = build(TINY)
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    state = {}
    for key, value in model.network.state_dict().items():
        for new, name in old.items():
            key = key.replace(f".{new}.", f".{name}.")
        state[key] = value
    assert any(".query." in key for key in state)
    assert equal(model.from_disk(state), model.state_dict())


def test_a_folder_of_another_network_is_refused_though_the_shapes_fit(tmp_path: Path) -> None:
    source = build(TINY)
    source.network.register_to_config(norm_num_groups=16)
    source.network.save_pretrained(tmp_path)
    with pytest.raises(Fault, match="norm_num_groups: 16 there, 32 here"):
        build(TINY, ckpt_path=str(tmp_path))


def test_ignored_keys_keep_their_own_start(tmp_path: Path) -> None:
    path = str(tmp_path / "x.safetensors")
    write_safetensors(path, {key: torch.zeros_like(value) for key, value in on_disk(build(TINY)).items()})
    model = build(TINY, ckpt_path=path, ignore_keys=["decoder.conv_out"])
    assert model.network.decoder.conv_out.weight.abs().sum() > 0
    assert model.network.decoder.conv_in.weight.abs().sum() == 0


@pytest.mark.parametrize("name", ["psnr", "latent_mean_7"])
def test_a_metric_of_ones_own_takes_no_name_that_an_autoencoder_logs(name: str) -> None:
    with pytest.raises(Fault, match=f"{name} is a metric of every model"):
        build(TINY, metrics={name: lambda reconstructed: reconstructed.x0.mean(dim=(1, 2, 3))})


def test_padding_by_reflection_is_that_of_each_convolution_that_pads() -> None:
    """As other programs read such a VAE: the mode of all convolutions with a padding, and nothing else."""
    model, plain = build(TINY | {"padding_mode": "reflect"}), build(TINY)
    plain.load_state_dict(model.state_dict())
    x = torch.linspace(-1, 1, 3 * 12 * 12).view(1, 3, 12, 12)
    with torch.no_grad():
        zeros = plain.decode(plain.encode_moments(x)[:, :4])
        for module in plain.network.modules():
            if isinstance(module, torch.nn.Conv2d) and module.padding != (0, 0):
                module.padding_mode = "reflect"
        moments = plain.encode_moments(x)
        assert torch.equal(model.encode_moments(x), moments)
        keep_last_layer_precise(model.network)
        assert torch.equal(model.decode(moments[:, :4]), plain.decode(moments[:, :4]))
    assert not torch.equal(model.decode(moments[:, :4]), zeros)
    with pytest.raises(Fault, match="padding_mode='circular' cannot be built"):
        build(TINY | {"padding_mode": "circular"})
    with pytest.raises(Fault, match="CFG08.*too small"):
        model.encode_moments(x[..., :2, :2])


def test_an_autoencoder_has_no_base_to_quantise() -> None:
    with pytest.raises(Fault, match="no base to quantise"):
        refuse_quantised_base({"base_config": {"target": "ldm.adapters.Int8"}})
    refuse_quantised_base({})


@pytest.mark.parametrize(("options", "id"), [({}, "CFG03"), ({"lossconfig": {"target": "x"}}, "MOD06")])
def test_what_settings_alone_lack_is_known_without_a_file(options: dict[str, Any], id: str) -> None:
    with pytest.raises(Fault, match=id):
        build(TINY, from_scratch=False, **options).require_weights(files=False)
