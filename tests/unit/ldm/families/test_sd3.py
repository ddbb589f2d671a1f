"""The record of Stable Diffusion 3 and 3.5: recognised, described, and in files that diffusers opens."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from diffusers import AutoencoderKL, SD3Transformer2DModel, StableDiffusion3Pipeline
from support.sd3 import VOCABULARY
from support.small import same
from support.small_sd3 import KINDS, MMDIT, VAE16, file_of, model, networks
from torch import Tensor

from ldm.convert.diffusers_folder import read_pipeline, scheduler_config, write_json, write_pipeline
from ldm.convert.model import Model
from ldm.convert.model_files import ExportSettings, export, remarks
from ldm.convert.modelspec import metadata_of
from ldm.diffusion.rectified_flow import RectifiedFlow, Spacing
from ldm.errors import Fault
from ldm.families.facts import Facts
from ldm.families.flow_marks import flow_of_folder
from ldm.families.part_names import named_parts
from ldm.families.registry import family_of, variant_of
from ldm.families.sd3 import SD3, SD3_MEDIUM, SD35_LARGE, SD35_MEDIUM, scheduler_on_path
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.read import read_state_dict
from ldm.files.write import write_safetensors
from ldm.keys.mmdit import mmdit_from_library
from ldm.keys.split_checkpoint import FIRST_STAGE, TEXT_ENCODERS, UNET, below, split_parts, unet_of
from ldm.models.diffusion.initial_weights import Start, require_weights
from ldm.models.diffusion.part import Part
from ldm.models.diffusion.published import build_published
from ldm.modules.encoders.tokenizer_files import with_tokenizers
from lun.convert.vae_parts import with_vae
from lun.weights.opening import open_model

VARIANTS = {"medium": SD3_MEDIUM, "3.5 medium": SD35_MEDIUM, "3.5 large": SD35_LARGE}
FULL: dict[str, dict[str, Any]] = {
    "medium": {"num_layers": 24, "pos_embed_max_size": 192},
    "3.5 medium": {"num_layers": 24, "pos_embed_max_size": 384, "dual_attention_layers": list(range(13))},
    "3.5 large": {"num_layers": 38, "pos_embed_max_size": 192},
}


def full_size(kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings of a published network and its tensors under diffusers' names, without memory."""
    heads = FULL[kind]["num_layers"]
    config = {"num_attention_heads": heads, "attention_head_dim": 64, "caption_projection_dim": 64 * heads}
    config |= {"in_channels": 16, "out_channels": 16, "joint_attention_dim": 4096, "pooled_projection_dim": 2048}
    config |= {"patch_size": 2, "qk_norm": None if kind == "medium" else "rms_norm", "dual_attention_layers": []}
    config |= FULL[kind]
    with torch.device("meta"):
        return config, dict(SD3Transformer2DModel(**config, sample_size=128).state_dict())


@pytest.mark.parametrize("kind", FULL)
def test_a_published_network_is_recognised_and_its_settings_follow_from_its_shapes(kind: str) -> None:
    config, library = full_size(kind)
    state = mmdit_from_library(library)
    assert variant_of(state) is variant_of(library) is VARIANTS[kind]
    assert family_of(state, "a file") is SD3 and SD3.variant(state) is VARIANTS[kind] and SD3.network.is_public(state)
    assert SD3.network.settings(state) == config
    bare = {key: value for key, value in state.items() if key != "pos_embed"}
    assert SD3.network.settings(bare) == config


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_network_is_of_the_variant_that_it_is_built_like(kind: str) -> None:
    state = unet_of(file_of(kind))
    assert family_of(state, "a file") is SD3 and SD3.variant(state) is VARIANTS[kind]
    expected = MMDIT | {"qk_norm": None, "dual_attention_layers": []} | KINDS[kind]
    assert SD3.network.settings(state) == {key: value for key, value in expected.items() if key != "sample_size"} | {
        "patch_size": 2
    }
    assert metadata_of(model(kind), "a", "b")["modelspec.architecture"] == VARIANTS[kind].spec.architecture  # type: ignore[union-attr]


def test_a_file_tells_its_licence_path_and_shift() -> None:
    told = metadata_of(model("medium"), "a", "b")
    assert "Stability AI Community License" in told["modelspec.license"]
    assert (told["modelspec.architecture"], told["lun.sampling_shift"]) == ("stable-diffusion-3-medium", "3.0")


@pytest.mark.parametrize("kind", ["medium", "3.5 medium"])
def test_diffusers_opens_the_folder_with_the_same_numbers(kind: str, tmp_path: Path) -> None:
    export(model(kind), tmp_path / "folder", ExportSettings("diffusers"))
    tokenizers = {"tokenizer": None, "tokenizer_2": None, "tokenizer_3": None}
    pipeline = StableDiffusion3Pipeline.from_pretrained(tmp_path / "folder", local_files_only=True, **tokenizers)
    for name, network in networks(kind).items():
        own, theirs = network.state_dict(), getattr(pipeline, name).state_dict()
        assert own.keys() == theirs.keys() and all(torch.equal(own[key], theirs[key]) for key in own), name
    assert (pipeline.scheduler.config.shift, pipeline.vae.config.shift_factor) == (3.0, 0.0609)
    assert json.loads((tmp_path / "folder" / "model_index.json").read_text())["tokenizer_3"] == [
        "transformers",
        "T5TokenizerFast",
    ]


def test_a_file_comes_out_of_a_folder_as_it_went_in_to_the_byte(tmp_path: Path) -> None:
    export(model("3.5 medium"), tmp_path / "a.safetensors", ExportSettings("ldm", title="t", date="d"))
    opened = open_model(str(tmp_path / "a.safetensors")).model
    assert (opened.family, opened.facts.prediction) == (SD3, "flow_prediction")
    export(opened.completed(), tmp_path / "folder", ExportSettings("diffusers", title="t", date="d"))
    export(read_pipeline(tmp_path / "folder"), tmp_path / "b.safetensors", ExportSettings("ldm", title="t", date="d"))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_folder_that_the_libraries_wrote_has_the_same_numbers_in_a_file(tmp_path: Path) -> None:
    for name, network in networks("3.5 large").items():
        network.save_pretrained(tmp_path / name)
    (tmp_path / "model_index.json").write_text("{}")
    write_json(tmp_path / "scheduler" / "scheduler_config.json", scheduler_on_path(Facts()))
    read = read_pipeline(tmp_path)
    assert same(read.state, file_of("3.5 large"))
    assert (read.facts.prediction, read.facts.scheduler["flow_shift"]) == ("flow_prediction", 3.0)


def test_diffusers_reads_a_file_alone(tmp_path: Path) -> None:
    export(model("3.5 medium", TEXT_ENCODERS), tmp_path / "a.safetensors", ExportSettings("ldm"))
    own = networks("3.5 medium")["transformer"]
    own.save_config(tmp_path / "transformer")
    read = SD3Transformer2DModel.from_single_file(
        str(tmp_path / "a.safetensors"), config=str(tmp_path), subfolder="transformer", local_files_only=True
    )
    assert same(read.state_dict(), own.state_dict())


def test_a_file_that_says_nothing_of_itself_is_a_flow_with_the_published_shift(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", file_of("medium", TEXT_ENCODERS))
    opened = open_model(str(tmp_path / "a.safetensors")).model
    assert opened.facts.scheduler == {"use_flow_sigmas": True, "flow_shift": 3.0, "timestep_spacing": "linspace"}
    assert [line for line in remarks(opened, "ldm") if "no text encoder" in line]


@pytest.mark.parametrize(("spacing", "off"), [("linspace", 0), ("trailing", 1.01e-3)])
def test_a_folders_scheduler_visits_the_levels_that_are_sampled_here(spacing: Spacing, off: float) -> None:
    path = RectifiedFlow(sampling_shift=3.0, spacing=spacing)
    assert SD3.pipeline is not None
    told = scheduler_config(Facts("flow_prediction", path.scheduler_settings()), on_path=SD3.pipeline.on_path)
    theirs = getattr(diffusers, told["_class_name"]).from_config(told)
    theirs.set_timesteps(8)
    assert (theirs.sigmas - path.grid(8)).abs().max() <= off
    assert SD3.objective(Facts(scheduler=flow_of_folder(told))).path == path
    assert SD3.objective(Facts()).path == RectifiedFlow(sampling_shift=3.0, spacing="linspace")  # of what says nothing


def test_a_folder_gives_a_model_the_names_of_a_single_file(tmp_path: Path) -> None:
    export(model("medium"), tmp_path / "folder", ExportSettings("diffusers"))
    checkpoint = open_checkpoint(tmp_path / "folder")
    parts = checkpoint.read()
    expected = file_of("medium", FIRST_STAGE, UNET)
    assert {TEXT_ENCODERS + key for key in parts.cond_stage} == expected.keys()
    assert checkpoint.describe().prediction == "flow" and parts.unet and parts.first_stage


def test_the_vae_is_described_without_convolutions_around_a_latent() -> None:
    config = SD3.latent.config(model("medium").first_stage)
    assert {key: config[key] for key in VAE16 if key in config} == VAE16
    assert AutoencoderKL.from_config(config).quant_conv is None


def test_a_conditioner_has_the_encoders_that_are_there_and_null_for_the_others() -> None:
    bundle = file_of("medium", f"{TEXT_ENCODERS}t5xxl.")
    text = {key.removeprefix(TEXT_ENCODERS): value for key, value in bundle.items() if key.startswith(TEXT_ENCODERS)}
    params = SD3.conditioner(text, [{"hidden_size": 1}, {"hidden_size": 2}], "empty caption")["params"]
    assert (params["clip"], params["open_clip"], params["t5"]) == ({"hidden_size": 1}, {"hidden_size": 2}, None)


def test_a_query_that_lost_its_key_is_refused_by_name(tmp_path: Path) -> None:
    export(model("medium"), tmp_path / "folder", ExportSettings("diffusers"))
    weights = tmp_path / "folder" / "transformer" / "diffusion_pytorch_model.safetensors"
    state = networks("medium")["transformer"].state_dict()
    write_safetensors(weights, {key: value for key, value in state.items() if "blocks.1.attn.to_v.bias" not in key})
    with pytest.raises(Fault, match=r"blocks.1.attn.to_q.bias comes without"):
        read_pipeline(tmp_path / "folder")


def test_what_is_wrong_with_weights_is_named_before_a_run_is_built(tmp_path: Path) -> None:
    """A triple in part and fp8 with scales, in a folder's network and in the files of text encoders."""
    export(model("medium"), tmp_path / "folder", ExportSettings("diffusers"))
    weights = tmp_path / "folder" / "transformer" / "diffusion_pytorch_model.safetensors"
    state = networks("medium")["transformer"].state_dict()
    settings = {**SD3.network.settings(unet_of(file_of("medium"))), "sample_size": 8}
    parts = {"UNet": Part("a", {"target": SD3.network.target, "params": settings}, UNET, "unet")}
    require_weights(parts, Start(str(tmp_path / "folder")))
    for wrong, told in (
        ({key: value for key, value in state.items() if "blocks.1.attn.to_v.bias" not in key}, "attn.to_v.bias"),
        (state | {"proj_out.scale_weight": torch.ones(1)}, "8 bits or fewer, with scales"),
    ):
        write_safetensors(weights, wrong)
        with pytest.raises(Fault) as caught:
            require_weights(parts, Start(str(tmp_path / "folder")))
        assert caught.value.id == "MOD03" and told in caught.value.what + caught.value.why


def test_a_file_without_the_table_of_positions_gets_it_in_a_folder(tmp_path: Path) -> None:
    whole, without = model("medium", TEXT_ENCODERS, FIRST_STAGE), model("medium", TEXT_ENCODERS, f"{UNET}pos_embed")
    bare = replace(without.part(UNET), facts=replace(without.facts, configs={"unet": {**MMDIT, "sample_size": 128}}))
    write_pipeline(bare, tmp_path / "a", None)
    found = SD3Transformer2DModel.from_pretrained(tmp_path / "a", local_files_only=True)
    expected = SD3Transformer2DModel(**{**MMDIT, "sample_size": 128}).pos_embed.pos_embed
    assert torch.equal(found.pos_embed.pos_embed, expected)
    assert torch.equal(found.proj_out.weight, networks("medium")["transformer"].proj_out.weight)
    assert f"{UNET}pos_embed" in whole.state


def test_a_bundle_with_t5_in_plain_fp8_is_converted_to_the_byte_and_one_with_scales_is_refused(tmp_path: Path) -> None:
    t5 = f"{TEXT_ENCODERS}t5xxl."
    state = {k: v.to(torch.float8_e4m3fn) if k.startswith(t5) else v for k, v in file_of("medium").items()}
    export(
        Model(state, SD3, "x", model("medium").facts),
        tmp_path / "a.safetensors",
        ExportSettings("ldm", title="t", date="d"),
    )
    opened = open_model(str(tmp_path / "a.safetensors")).model
    assert opened.state[f"{t5}transformer.shared.weight"].dtype == torch.float8_e4m3fn
    export(opened, tmp_path / "b.safetensors", ExportSettings("ldm", title="t", date="d"))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    export(opened, tmp_path / "c.safetensors", ExportSettings("ldm", dtype=torch.bfloat16))
    assert read_state_dict(tmp_path / "c.safetensors")[f"{t5}transformer.shared.weight"].dtype == torch.bfloat16
    write_safetensors(tmp_path / "d.safetensors", state | {f"{t5}transformer.shared.scale_weight": torch.ones(1)})
    for opener in (open_model, lambda path: open_checkpoint(path).describe()):
        with pytest.raises(Fault, match="8 bits or fewer, with scales"):
            opener(str(tmp_path / "d.safetensors"))


def test_a_vae_alone_is_not_taken_for_one_of_other_latents(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, lone = model("medium"), tmp_path / "vae.safetensors"
    export(replace(source.part(FIRST_STAGE), family=None, facts=Facts()), lone, ExportSettings("ldm"))
    vae = open_model(str(lone)).model
    with pytest.raises(Fault, match="does not say by what its latents are scaled"):
        export(vae, tmp_path / "folder", ExportSettings("diffusers"))
    assert with_vae(source, str(lone), False).first_stage.keys() == source.first_stage.keys()
    assert "a VAE of Flux has the same names and shapes" in caplog.text
    flux = networks("medium")["vae"]
    flux.register_to_config(scaling_factor=0.3611, shift_factor=0.1159)
    flux.save_pretrained(tmp_path / "flux")
    with pytest.raises(Fault, match="makes other latents"):
        with_vae(source, str(tmp_path / "flux"), False)


def test_a_file_draws_without_an_encoder_only_if_that_is_asked_for() -> None:
    """Never from zeros that nobody asked for."""
    for absent, files in (
        ("", "clip_l.safetensors, clip_g.safetensors, t5xxl_fp16.safetensors"),
        ("t5xxl.", "t5xxl_fp16.safetensors"),
    ):
        with pytest.raises(Fault, match=f"cannot draw without {files}") as caught:
            build_published(model("medium", TEXT_ENCODERS + absent))
        assert caught.value.id == "MOD06" and "text_encoder.t5=null" in caught.value.fix
    built = build_published(model("medium"), {"t5": None, "clip": None})
    assert [*built.cond_stage_model.shares()] == ["open_clip"]
    with pytest.raises(Fault, match="no text encoder t6"):
        build_published(model("medium"), {"t6": None})


def test_a_file_draws_with_encoders_out_of_files_of_their_own(tmp_path: Path) -> None:
    whole = file_of("medium")
    files = {encoder.setting: str(tmp_path / encoder.file) for encoder in SD3.encoders}
    for encoder in SD3.encoders:
        write_safetensors(Path(files[encoder.setting]), below(whole, encoder.prefix))
    with pytest.raises(Fault, match="no vocabulary of T5") as caught:
        build_published(model("medium", TEXT_ENCODERS), files, str(tmp_path))
    assert caught.value.id == "MOD01" and caught.value.fix.startswith("tokenizer=FOLDER")
    built = build_published(model("medium", TEXT_ENCODERS), files, str(VOCABULARY))
    expected = build_published(model("medium"), tokenizer=str(VOCABULARY))
    assert same(built.cond_stage_model.state_dict(), expected.cond_stage_model.state_dict())
    assert built.condition_on(["a red fox"]).context is not None


def test_a_folder_goes_without_the_encoder_that_its_index_says_is_null(tmp_path: Path) -> None:
    export(model("medium", f"{TEXT_ENCODERS}t5xxl."), tmp_path / "folder", ExportSettings("diffusers"))
    assert build_published(open_model(str(tmp_path / "folder")).model).cond_stage_model.t5xxl is None
    index = json.loads((tmp_path / "folder" / "model_index.json").read_text())
    write_json(tmp_path / "folder" / "model_index.json", index | {"text_encoder_3": ["transformers", "T5EncoderModel"]})
    with pytest.raises(Fault, match="cannot draw without t5xxl_fp16.safetensors"):
        build_published(open_model(str(tmp_path / "folder")).model)


def test_its_parts_are_named_in_messages() -> None:
    assert named_parts(split_parts(file_of("medium")))[:2] == ("MMDiT", "VAE")


@torch.no_grad()
def test_a_folder_draws_by_itself_what_diffusers_pipeline_draws_from_it(tmp_path: Path) -> None:
    whole = with_tokenizers(model("3.5 medium"))
    brought = {f"tokenizer_3/{file.name}": file.read_bytes() for file in (VOCABULARY / "tokenizer_3").iterdir()}
    facts = replace(
        whole.facts, files={**whole.facts.files, **brought}, configs={"unet": {**MMDIT, **KINDS["3.5 medium"]}}
    )
    export(replace(whole, facts=facts), tmp_path / "folder", ExportSettings("diffusers"))
    pipeline = StableDiffusion3Pipeline.from_pretrained(tmp_path / "folder", local_files_only=True)
    ours = build_published(open_model(str(tmp_path / "folder")).model)
    caption, latent = ["a red fox"], torch.linspace(-1, 1, 16 * 8 * 8).view(1, 16, 8, 8)
    context, _, pooled, _ = pipeline.encode_prompt(caption, None, None, do_classifier_free_guidance=False)
    told = ours.condition_on(caption, (8, 8))
    assert told.context is not None and torch.allclose(told.context, context, atol=1e-5)
    time = torch.tensor([731.0])
    velocity = pipeline.transformer(latent, context, pooled, time).sample
    assert torch.allclose(ours.model(latent, time, told), velocity, atol=1e-5)
    pixels = pipeline.vae.decode(latent / 1.5305 + 0.0609).sample
    assert torch.allclose(ours.decode(latent), pixels, atol=1e-5)
