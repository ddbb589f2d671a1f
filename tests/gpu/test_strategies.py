"""Every strategy in every precision at one GPU: `python -m pytest tests/gpu -m gpu`."""

from pathlib import Path

import pytest
import torch
from support.runs import TINY, load, make_pictures, newest_run

from lun.strategies.combinations import PRECISIONS, TABLE
from lun.trainer import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]

STEPS = 6
CELLS = [(strategy, precision) for strategy, row in TABLE.items() for precision in PRECISIONS]
# How far from fp32 a run may end, in the way that its weights moved: rounding of half precision, seen through AdamW.
FAR = {"32-true": 1e-2, "bf16-mixed": 0.2, "16-mixed": 0.2, "bf16-true": 0.5, "bf16-master": 0.2}


def words(data: Path, logs: Path, *more: str) -> list[str]:
    same = ["model.params.unet_config.params.dropout=0.0", f"lightning.trainer.max_steps={STEPS}"]
    return ["--base", str(TINY), "--data_root", str(data), "--logdir", str(logs), "--accelerator", "gpu", *same, *more]


def trained(logs: Path) -> torch.Tensor:
    state = load(newest_run(logs) / "checkpoints" / "last.ckpt")["state_dict"]
    return torch.cat([v.float().flatten() for k, v in state.items() if k.startswith("model.diffusion_model.")])


def require(strategy: str) -> None:
    """Skips where the engine is not installed."""
    if strategy == "deepspeed":
        pytest.importorskip("deepspeed")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor, torch.Tensor]:
    """Pictures, and the weights at which fp32 on one device begins and ends."""
    folder = tmp_path_factory.mktemp("reference")
    data = make_pictures(folder / "data", 8)
    assert run([*words(data, folder / "end"), "-t"]) == 0
    still = ["lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]
    assert run([*words(data, folder / "start", *still), "-t"]) == 0
    return data, trained(folder / "start"), trained(folder / "end")


@pytest.mark.parametrize(("strategy", "precision"), CELLS)
def test_a_cell_ends_near_fp32_or_is_refused(
    strategy: str, precision: str, reference: tuple[Path, torch.Tensor, torch.Tensor], tmp_path: Path
) -> None:
    require(strategy)
    data, start, end = reference
    named = {"one device": "auto"}.get(strategy, strategy)
    more = [f"lightning.trainer.strategy={named}", f"lightning.trainer.precision={precision}"]
    code = run([*words(data, tmp_path, *more), "-t"])
    if TABLE[strategy][precision] is not None and not TABLE[strategy][precision].on_cpu_only:
        assert code == 2
        return
    assert code == 0
    off = (trained(tmp_path) - end).norm() / (end - start).norm()
    assert off < FAR[precision]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_with_offload_and_a_resume_by_one_device(stage: int, reference: tuple, tmp_path: Path) -> None:
    require("deepspeed")
    data, start, end = reference
    zero = ["lightning.trainer.strategy=deepspeed", f"lightning.deepspeed.stage={stage}"]
    zero += ["lightning.deepspeed.offload_optimizer=true", f"lightning.trainer.max_steps={STEPS // 2}"]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert run([*words(data, tmp_path, *zero, horizon), "-t"]) == 0
    alone = ["lightning.trainer.strategy=auto", f"lightning.trainer.max_steps={STEPS}", "-t"]
    assert run(["-r", str(newest_run(tmp_path)), *alone]) == 0
    assert (trained(tmp_path) - end).norm() / (end - start).norm() < FAR["32-true"]


def test_zero_in_float16_as_a_config_of_2022_asks_for_it_goes_on_with_its_scale(
    reference: tuple, tmp_path: Path
) -> None:
    """`strategy: deepspeed` beside `precision: 16`, which a CPU is refused (DEV05), with the section of that time."""
    require("deepspeed")
    data, start, end = reference
    zero = ["lightning.trainer.strategy=deepspeed", "lightning.trainer.precision=16", "lightning.deepspeed.stage=1"]
    zero += ["lightning.deepspeed.offload_optimizer=true", f"lightning.trainer.max_steps={STEPS // 2}"]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert run([*words(data, tmp_path, *zero, horizon), "-t"]) == 0
    half = trained(tmp_path)
    assert half.isfinite().all() and (half - start).norm() > 0
    assert run(["-r", str(newest_run(tmp_path)), f"lightning.trainer.max_steps={STEPS}", "-t"]) == 0
    assert (trained(tmp_path) - end).norm() / (end - start).norm() < FAR["16-mixed"]


def test_offloaded_frozen_parts_change_nothing(reference: tuple, tmp_path: Path) -> None:
    data, start, end = reference
    frozen = ["model.params.cond_stage_trainable=false"]
    offload = ["lightning.callbacks.offload_frozen={target: lun.callbacks.OffloadFrozen}"]
    assert run([*words(data, tmp_path / "a", *frozen), "-t"]) == 0
    assert run([*words(data, tmp_path / "b", *frozen, *offload), "-t"]) == 0
    off = (trained(tmp_path / "a") - trained(tmp_path / "b")).norm() / (end - start).norm()
    assert off < 1e-3  # sums of a GPU have no order of their own
