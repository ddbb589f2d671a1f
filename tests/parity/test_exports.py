"""What was exported opens in diffusers without a network, and paints what our own sampler paints."""

import filecmp
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import (
    AutoencoderKL,
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import load_file
from support.small import FAMILIES as RECORDS
from support.small import UNETS, VAE, Kind, Networks, file_of, model, networks, same, single_file
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel

from ldm.convert.diffusers_folder import read_pipeline
from ldm.convert.model import Model
from ldm.convert.model_files import ExportSettings, export
from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.prediction import Prediction
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.guidance import Guidance
from ldm.diffusion.sampling.sampler import sample
from ldm.families.facts import Facts
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import FIRST_STAGE
from ldm.modules.encoders.clip import CLIP_L_CONFIG, FrozenCLIPEmbedder
from ldm.modules.encoders.conditioner import Conditioner
from ldm.modules.encoders.openclip import FrozenOpenCLIPEmbedder
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.encoders.tokenizer_files import with_tokenizers
from ldm.modules.networks.unet import UNet
from lun.convert.command import run as convert

FAMILIES: list[Kind] = ["sd1", "sd2", "sdxl"]
STEPS, GUIDANCE = 4, 5.0
PROMPT = "a photo of a cat"
PIPELINES = {"sd1": StableDiffusionPipeline, "sd2": StableDiffusionPipeline, "sdxl": StableDiffusionXLPipeline}


@dataclass(frozen=True)
class Exported:
    family: Kind
    folder: Path
    file: Path
    skeleton: Path


@pytest.fixture(scope="module", params=FAMILIES)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The same small model as a folder, as a file, and the folder once more without any weights."""
    root = tmp_path_factory.mktemp(request.param)
    source = with_tokenizers(model(request.param, configs={"unet": {"sample_size": 8, **UNETS[request.param]}}))
    export(source, root / "folder", ExportSettings("diffusers"))
    export(source, root / "file.safetensors", ExportSettings("ldm"))
    return Exported(request.param, root / "folder", root / "file.safetensors", skeleton_of(root / "folder"))


def skeleton_of(folder: Path) -> Path:
    """The configs that diffusers would fetch from the hub to open a single file."""
    return Path(shutil.copytree(folder, folder.parent / "skeleton", ignore=shutil.ignore_patterns("*.safetensors")))


def opened(folder: Path, family: Kind) -> Any:
    pipeline = PIPELINES[family].from_pretrained(folder, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def nearly(a: Tensor, b: Tensor) -> bool:
    """Equal but for sums in another order, which follows from where in memory a file's tensors begin."""
    return bool((a - b).abs().max() <= 2e-5 * b.abs().max())


def noise() -> Tensor:
    return torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(3))


def painted(pipeline: Any) -> Tensor:
    settings = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE, "latents": noise(), "output_type": "latent"}
    latents: Tensor = pipeline(PROMPT, height=64, width=64, **settings).images
    return latents


def told(pipeline: Any, family: Kind) -> tuple[Conditioning, Conditioning]:
    """What the pipeline tells the network with and without the prompt."""
    if family != "sdxl":
        yes, no = pipeline.encode_prompt(PROMPT, "cpu", 1, True)
        return Conditioning(yes), Conditioning(no)
    yes, no, pooled, no_pooled = pipeline.encode_prompt(PROMPT, device="cpu")
    sizes = torch.tensor([[64.0, 64, 0, 0, 64, 64]])
    return Conditioning(yes, pooled, sizes), Conditioning(no, no_pooled, sizes)


def ours(network: UNet, cond: Conditioning, uncond: Conditioning, path: DDPMPath, prediction: Prediction) -> Tensor:
    return sample(network, path, prediction, cond, uncond, noise(), steps=STEPS, guidance=Guidance(GUIDANCE))


def stable_path(zero_terminal_snr: bool = False) -> DDPMPath:
    return DDPMPath(linear_start=0.00085, linear_end=0.012, zero_terminal_snr=zero_terminal_snr)


def test_the_folder_paints_the_latents_of_our_sampler(exported: Exported) -> None:
    pipeline = opened(exported.folder, exported.family)
    network = UNet(ckpt_path=str(exported.folder)).eval()
    latents = ours(network, *told(pipeline, exported.family), stable_path(), "eps")
    theirs = painted(pipeline)
    assert theirs.abs().max() > 1
    # Not equal to the bit: diffusers sums the schedule in float32, we in float64.
    assert (latents - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_the_single_file_opens_and_holds_the_same_networks_bit_for_bit(exported: Exported) -> None:
    kind = PIPELINES[exported.family]
    single = kind.from_single_file(exported.file, config=str(exported.skeleton), local_files_only=True)
    single.set_progress_bar_config(disable=True)
    folder = opened(exported.folder, exported.family)
    for name in ("unet", "vae", "text_encoder", *(["text_encoder_2"] if exported.family == "sdxl" else [])):
        a, b = getattr(single, name).state_dict(), getattr(folder, name).state_dict()
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a), name
    assert len(single.tokenizer) == 49408
    assert nearly(painted(single), painted(folder))


def test_what_opens_is_what_was_built(exported: Exported) -> None:
    found, pipeline = networks(exported.family), opened(exported.folder, exported.family)
    x, t = torch.randn(1, 4, 8, 8), torch.tensor([501])
    more: dict[str, Any] = {}
    if exported.family == "sdxl":
        more["added_cond_kwargs"] = {"text_embeds": torch.ones(1, 128), "time_ids": torch.ones(1, 6)}
    context = torch.randn(1, 77, UNETS[exported.family]["cross_attention_dim"])
    with torch.no_grad():
        assert nearly(found.unet(x, t, context, **more)[0], pipeline.unet(x, t, context, **more)[0])
        assert nearly(found.vae.decode(x)[0], pipeline.vae.decode(x)[0])
        tokens = pipeline.tokenizer([PROMPT], padding="max_length", return_tensors="pt").input_ids
        assert tokens[0, :7].tolist() == [49406, 320, 1125, 539, 320, 2368, 49407]
        assert nearly(found.texts[0](tokens)[0], pipeline.text_encoder(tokens)[0])


@pytest.mark.parametrize(
    "exported", ["sd1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sd2", "sdxl"))], indirect=True
)
def test_networks_in_several_files_open_everywhere_with_the_same_tensors(exported: Exported, tmp_path: Path) -> None:
    sharded, limit = tmp_path / "sharded", 2_000_000
    assert convert([str(exported.folder), str(sharded), "--to", "diffusers", "--max-shard-size", "2MB"]) == 0
    split = [part.parent for part in sharded.rglob("*.safetensors.index.json")]
    assert {"unet", "text_encoder"} <= {folder.name for folder in split}
    for folder in split:
        shards = sorted(folder.glob("*-of-*.safetensors"))
        assert len(shards) > 1 and len(shards) == len(list(folder.glob("*.safetensors")))
        stored = [load_file(shard) for shard in shards]
        sizes = [sum(value.nbytes for value in part.values()) for part in stored]
        assert all(size <= limit or len(part) == 1 for size, part in zip(sizes, stored, strict=True))
    whole, parts = opened(exported.folder, exported.family), opened(sharded, exported.family)
    for name in ("unet", "vae", "text_encoder", *(["text_encoder_2"] if exported.family == "sdxl" else [])):
        assert same(getattr(whole, name).state_dict(), getattr(parts, name).state_dict()), name
    assert same(read_pipeline(sharded).state, read_pipeline(exported.folder).state)
    assert convert([str(sharded), str(tmp_path / "a.safetensors"), "--to", "ldm"]) == 0
    assert same(load_file(tmp_path / "a.safetensors"), load_file(exported.file))


def test_tokenizers_come_in_the_form_of_every_version(exported: Exported) -> None:
    for name in ("tokenizer", *(["tokenizer_2"] if exported.family == "sdxl" else [])):
        folder = exported.folder / name
        assert {"vocab.json", "merges.txt", "special_tokens_map.json"} <= {file.name for file in folder.iterdir()}
        assert len(json.loads((folder / "vocab.json").read_text())) == 49408
        pad = json.loads((folder / "tokenizer_config.json").read_text())["pad_token"]
        assert pad == ("<|endoftext|>" if (exported.family, name) in (("sd1", name), ("sdxl", "tokenizer")) else "!")


def test_v_prediction_and_zero_terminal_signal_reach_the_pipeline(tmp_path: Path) -> None:
    facts = {"prediction": "v_prediction", "scheduler": {"rescale_betas_zero_snr": True}}
    export(with_tokenizers(model("sd1", **facts)), tmp_path / "folder", ExportSettings("diffusers"))
    pipeline = opened(tmp_path / "folder", "sd1")
    assert pipeline.scheduler.config.prediction_type == "v_prediction"
    assert float(pipeline.scheduler.alphas_cumprod[-1]) == 0
    network = UNet(ckpt_path=str(tmp_path / "folder")).eval()
    latents = ours(network, *told(pipeline, "sd1"), stable_path(zero_terminal_snr=True), "v")
    theirs = painted(pipeline)
    assert (latents - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_a_flow_reaches_the_pipeline(tmp_path: Path) -> None:
    path = RectifiedFlow(sampling_shift=3.0)
    facts = {"prediction": "flow_prediction", "scheduler": dict(path.scheduler_settings())}
    export(with_tokenizers(model("sd1", **facts)), tmp_path / "folder", ExportSettings("diffusers"))
    pipeline = opened(tmp_path / "folder", "sd1")
    network = UNet(ckpt_path=str(tmp_path / "folder")).eval()
    latents = sample(
        network,
        path,
        "flow",
        *told(pipeline, "sd1"),
        noise(),
        steps=STEPS,
        guidance=Guidance(GUIDANCE),
        scheduler="dpmpp",
    )
    theirs = painted(pipeline)
    # Theirs begins short of pure noise and cuts the time that the network is told to a whole number.
    assert (latents - theirs).abs().max() <= 0.02 * theirs.abs().max()


def test_our_own_text_encoders_and_unet_read_the_single_file_and_paint_the_same(exported: Exported) -> None:
    """The whole of our side, from the file, against the whole of theirs, from the folder: prompt to latents."""
    widths = {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 1}
    file = {"ckpt_path": str(exported.file)}
    embedder: Any
    if exported.family == "sdxl":
        wide = {"hidden_size": 128, "intermediate_size": 32, "num_attention_heads": 2}
        embedder = SDXLConditioner(clip=widths, open_clip=wide, **file)
    elif exported.family == "sd2":
        embedder = FrozenOpenCLIPEmbedder(config=widths, **file)
    else:
        embedder = FrozenCLIPEmbedder(config=widths, **file)
    network = UNet(sample_size=8, **UNETS[exported.family], **file).eval()
    with torch.no_grad():
        conditioner = Conditioner(embedder.eval())
        both = conditioner.on([PROMPT], (64, 64)), conditioner.away_from([""], (64, 64))
        latents = ours(network, *both, stable_path(), "eps")
    theirs = painted(opened(exported.folder, exported.family))
    assert (latents - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_a_vae_alone_opens_from_its_file_and_from_its_folder(tmp_path: Path) -> None:
    source = Model(model("sd1").part(FIRST_STAGE).state, None, "x")
    export(source, tmp_path / "vae.safetensors", ExportSettings("ldm"))
    export(source, tmp_path / "vae", ExportSettings("diffusers"))
    folder = AutoencoderKL.from_pretrained(tmp_path / "vae", local_files_only=True)
    file = AutoencoderKL.from_single_file(
        str(tmp_path / "vae.safetensors"), config=str(tmp_path / "vae"), local_files_only=True
    )
    built = networks("sd1").vae.state_dict()
    for opened_vae in (folder, file):
        assert all(torch.equal(value, built[key]) for key, value in opened_vae.state_dict().items())


@pytest.mark.parametrize("family", ["sd1", "sd2"])
def test_an_inpainting_model_opens_as_one(family: Kind, tmp_path: Path) -> None:
    source = with_tokenizers(Model(single_file(family, channels=9), RECORDS[family], "x", Facts("epsilon")))
    export(source, tmp_path / "folder", ExportSettings("diffusers"))
    pipeline = StableDiffusionInpaintPipeline.from_pretrained(tmp_path / "folder", local_files_only=True)
    assert pipeline.unet.config.in_channels == 9
    assert json.loads((tmp_path / "folder" / "model_index.json").read_text())["_class_name"].endswith("InpaintPipeline")


# The system's own count of a child's memory begins with that of the process that started it; this one does not.
CONVERT_AND_TELL = """
import sys
from lun.convert.command import run
code = run(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1])
sys.exit(code)
"""


@pytest.mark.slow
def test_a_full_size_1x_comes_back_byte_for_byte_and_takes_no_memory_of_its_size(tmp_path: Path) -> None:
    """1066 million numbers in half precision: 2.1 GB on disk, four times."""
    torch.manual_seed(0)
    with torch.device("meta"):
        unet = UNet2DConditionModel(
            block_out_channels=[320, 640, 1280, 1280], cross_attention_dim=768, attention_head_dim=8
        )
        vae = AutoencoderKL(**VAE | {"block_out_channels": [128, 256, 512, 512]})
        text = CLIPTextModel(CLIPTextConfig(**CLIP_L_CONFIG, vocab_size=49408))
        on_meta = file_of(Networks(unet, vae, [text]), "sd1")
    positions = next(key for key in on_meta if key.endswith("position_ids"))
    state = {key: torch.randn(value.shape).half() * 0.02 for key, value in on_meta.items()}
    state[positions] = torch.arange(77)[None]
    assert sum(value.numel() for value in state.values()) == 859_520_964 + 83_653_863 + 123_060_557
    write_safetensors(tmp_path / "in.safetensors", state)
    del state
    peaks = []
    for source, out, to in (("in.safetensors", "a.safetensors", "ldm"), ("a.safetensors", "b", "diffusers")):
        line = [sys.executable, "-c", CONVERT_AND_TELL, str(tmp_path / source), str(tmp_path / out), "--to", to]
        done = subprocess.run(line, check=True, cwd=Path(__file__).parents[2], capture_output=True, text=True)
        peaks.append(int(done.stdout.splitlines()[-1]) / 2**20)
    assert convert([str(tmp_path / "b"), str(tmp_path / "c.safetensors"), "--to", "ldm"]) == 0
    assert filecmp.cmp(tmp_path / "a.safetensors", tmp_path / "c.safetensors", shallow=False)
    a, original = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "in.safetensors")
    assert same(a, original)
    # Pages of the source count as memory although the system takes them back: its size, once, and the libraries.
    print(f"peak memory of the conversions in GiB: {peaks}")
    assert max(peaks) < 3.5
    shutil.rmtree(tmp_path)  # which would otherwise be kept for three runs
