"""What a run is predicted to take against what the allocator gives it, where there is an allocator to ask: the CPU."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from support.measured import peak_of_steps
from support.runs import TINY
from support.sd3 import small_config
from support.tiny_networks import CLIP, TOLD

from lun.cli import parser
from lun.memory.forecast import forecast
from lun.run.settings import read_settings

Lun = Callable[..., int]
OFF_BY = 0.05
UNET = "model.params.unet_config.params"
NETWORK = [f"{UNET}.{name}" for name in ("block_out_channels=[64,128]", "norm_num_groups=8", "attention_head_dim=8")]
SIDES = ["data.params.train.params.size=64", "model.params.image_size=32"]
EMA = "model.params.ema_config.params.update_every=1"
SD = [*NETWORK, *SIDES, EMA]
FROZEN = "model.params.cond_stage_trainable=false"
CACHED = ["data.params.cache=true", FROZEN]
LORA = (
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: "
    "{match: 'unet.*attn*', kind: {target: ldm.adapters.LoRA, params: {rank: 4}}}}}}"
)
OFFLOADED = "lightning.callbacks.offload={target: lun.callbacks.OffloadFrozen}"
SWAP = "lightning.callbacks.swap={target: lun.callbacks.BlockSwap}"
FROZEN_HALF = "lightning.trainer.precision={target: lun.strategies.precision.Bf16Mixed, params: {frozen_half: true}}"
TWICE = f"{UNET}.gradient_checkpointing=true"


def optimizer(target: str) -> str:
    return f"model.params.optimizer_config={{target: {target}}}"


def of_32(name: str) -> str:
    return f"lightning.trainer.precision={name}"


def flow(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()


ENCODERS = {"from_scratch": True, "clip": CLIP, "open_clip": CLIP}
CONDITIONER = {"target": "ldm.modules.encoders.sdxl.SDXLConditioner", "params": ENCODERS}
XL = [
    *(f"{UNET}.{name}={flow(value)}" for name, value in (TOLD | {"addition_time_embed_dim": 4}).items()),
    f"{UNET}.projection_class_embeddings_input_dim={8 + 6 * 4}",
    f"{UNET}.transformer_layers_per_block=[1,2]",
    f"model.params.cond_stage_config={flow(CONDITIONER)}",
]
WIDE = {"attention_head_dim": 32, "num_attention_heads": 4, "caption_projection_dim": 128, "pos_embed_max_size": 48}
SD3 = [*(f"{UNET}.{name}={value}" for name, value in WIDE.items()), *SIDES, EMA]
AUTOENCODER = [
    *("data.params.train.params.size=64", EMA, "lightning.trainer.accumulate_grad_batches=3"),
    *("model.params.ddconfig.ch=64", "model.params.lossconfig.params.disc_start=0"),
]
SHORT = {
    "accumulation": ["lightning.trainer.accumulate_grad_batches=2"],
}
LONG = {
    "rounded weights": [of_32("bf16-true"), optimizer("ldm.training.matrices.Adafactor")],
    "adapters, cached": [LORA, FROZEN_HALF, TWICE, *CACHED, "lightning.trainer.accumulate_grad_batches=2"],
    "plain": [],
    "autocast": [of_32("bf16-mixed")],
    "few pixels": ["data.params.train.params.size=16"],
    "many pictures": ["data.params.batch_size=8"],
    "twice": [TWICE],
    "no average": ["model.params.use_ema=false"],
    "frozen half": [FROZEN_HALF, FROZEN],
    "offloaded": [FROZEN_HALF, OFFLOADED, *CACHED],
    "streamed": [FROZEN_HALF, LORA, TWICE, SWAP, FROZEN],
    "rounded": [of_32("bf16-true")],
    "rounded, twice, accumulation": [of_32("bf16-true"), TWICE, "lightning.trainer.accumulate_grad_batches=3"],
    "adafactor": [optimizer("torch.optim.Adafactor")],
    "lion": [optimizer("pytorch_optimizer.Lion")],
    "came": [optimizer("pytorch_optimizer.CAME")],
    "sgd": [optimizer("torch.optim.SGD")],
    "adapters": [LORA, FROZEN],
    "adapters, rounded": [LORA, FROZEN, of_32("bf16-true")],
    "XL": [*XL, FROZEN],
}
OF_SD3 = {
    "whole": [of_32("bf16-mixed")],
    "rounded": [of_32("bf16-true"), optimizer("ldm.training.matrices.Adafactor")],
}
ADAPTERS_TWICE = [LORA, FROZEN_HALF, TWICE, OFFLOADED, *CACHED]


def told(words: Sequence[str], pictures: Path) -> int:
    settings = read_settings(parser.parse([*words, "--data_root", str(pictures)]), None)
    return forecast(settings.config).peak


def compare(base: Path, words: Sequence[str], lun: Lun, tmp_path: Path, pictures: Path, off_by: float = OFF_BY) -> None:
    line = ["--base", str(base), *words, "lightning.trainer.max_steps=2"]
    predicted = told(line, pictures)
    run = [*line, "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures), "-t"]
    ended: list[int] = []
    measured = peak_of_steps(lambda: ended.append(lun(*run, base=False)))
    assert ended == [0]
    assert predicted == pytest.approx(measured, rel=off_by)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("words", SHORT.values(), ids=SHORT)
def test_a_run_takes_what_is_predicted(words: list[str], lun: Lun, tmp_path: Path, pictures: Path) -> None:
    compare(TINY, [*SD, *words], lun, tmp_path, pictures)


@pytest.mark.slow
@pytest.mark.parametrize("words", LONG.values(), ids=LONG)
def test_other_runs_take_what_is_predicted(words: list[str], lun: Lun, tmp_path: Path, pictures: Path) -> None:
    compare(TINY, [*SD, *words], lun, tmp_path, pictures)


@pytest.mark.slow
@pytest.mark.parametrize("words", OF_SD3.values(), ids=OF_SD3)
def test_runs_of_stable_diffusion_3_take_what_is_predicted(
    words: list[str], lun: Lun, tmp_path: Path, pictures: Path
) -> None:
    compare(small_config(tmp_path), [*SD3, *words], lun, tmp_path, pictures)


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["lightning.trainer.precision=bf16-mixed"]], ids=["plain", "autocast"])
def test_autoencoders_take_what_is_predicted(words: list[str], lun: Lun, tmp_path: Path, pictures: Path) -> None:
    compare(TINY.with_name("tiny-autoencoder.yaml"), [*AUTOENCODER, *words], lun, tmp_path, pictures)


@pytest.mark.slow
def test_adapters_over_checkpointed_bfloat16_blocks_take_up_to_a_fifth_more(
    lun: Lun, tmp_path: Path, pictures: Path
) -> None:
    """What a pass leaves is little there, and what kernels take while they run shows."""
    compare(TINY, [*SD, *XL, *ADAPTERS_TWICE], lun, tmp_path, pictures, off_by=0.2)
    compare(small_config(tmp_path), [*SD3, *ADAPTERS_TWICE], lun, tmp_path, pictures, off_by=0.2)
