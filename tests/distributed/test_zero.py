"""DeepSpeed's ZeRO on two ranks against one process with the same global batch."""

import io
import os
import shutil
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from support.ranks import Ranks
from support.runs import newest_run
from support.together import (
    GROUPS,
    MICRO,
    ONE,
    SAME,
    STEPS,
    STILL,
    TOLD,
    cache_in,
    distance,
    goes_on,
    last,
    off,
    rows,
    tiny,
    train,
    until,
)
from torch import Tensor

pytest.importorskip("deepspeed")

ADAM = [
    "model.params.optimizer_config={target: torch.optim.AdamW}",
    "model.base_learning_rate=0.001",
    "lightning.trainer.gradient_clip_val=0.1",
    "model.params.scheduler_config={target: ldm.lr_scheduler.WarmupCosine, params: {warm_up_steps: 1, total_steps: 4}}",
]


def zero(stage: int, **section: object) -> list[str]:
    """The old spelling, as configs of 2022 have it."""
    said = [f"lightning.deepspeed.{name}={value}" for name, value in {"stage": stage, **section}.items()]
    return ["data.params.batch_size=2", "lightning.trainer.devices=2", "lightning.trainer.strategy=deepspeed", *said]


def unet(checkpoint: dict[str, Any]) -> dict[str, Tensor]:
    """The UNet's weights: those that train."""
    network = {k: v for k, v in checkpoint["state_dict"].items() if k.startswith("model.diffusion_model.")}
    return {name: weight for name, weight in network.items() if ".time_embed." not in name}  # which `GROUPS` freezes


@pytest.fixture(scope="module")
def adam(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The same by AdamW with clipping and a schedule; `begun` is its first step."""
    folder = tmp_path_factory.mktemp("zero-adam")
    words = [*tiny(pictures, *SAME, *GROUPS), *ADAM]
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "begun", [*words, *ONE, until(1)]) == 0
    assert train(folder / "start", [*words, *ONE, *STILL]) == 0
    return folder, words


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_plain_descent_ends_at_the_weights_of_one_process(
    stage: int, ranks: Ranks, plain: tuple[Path, list[str]], pictures: Path
) -> None:
    """With everything beside the steps in stages 2 and 3; stage 1 does less than 2 does."""
    folder, words = plain
    words = tiny(pictures, *SAME, *GROUPS) if stage == 1 else words
    assert ranks(train, folder / f"zero-{stage}", [*words, *zero(stage)]) == [0, 0]
    assert off(folder / f"zero-{stage}", folder) < 1e-4
    two, one = rows(folder / f"zero-{stage}"), rows(folder / "one")
    assert two.keys() == one.keys()
    for step in one:
        wanted = [name for name in one[step] if name.startswith(TOLD[:2]) and "/grad_" not in name]
        same = {name: one[step][name] for name in (wanted if stage > 1 else two[step])}
        assert two[step] == pytest.approx(same, rel=1e-4)


def test_its_checkpoint_has_the_keys_of_one_process(ranks: Ranks, adam: tuple[Path, list[str]]) -> None:
    folder, words = adam
    assert ranks(train, folder / "keys", [*words, *zero(2), until(1)]) == [0, 0]
    two, one = last(folder / "keys"), last(folder / "begun")
    assert list(two["state_dict"]) == list(one["state_dict"])
    assert {name: value.dtype for name, value in two["state_dict"].items()} == {
        name: value.dtype for name, value in one["state_dict"].items()
    }
    (ours,), (theirs,) = two["optimizer_states"], one["optimizer_states"]
    assert {k: {n: v.shape for n, v in s.items()} for k, s in ours["state"].items()} == {
        k: {n: v.shape for n, v in s.items()} for k, s in theirs["state"].items()
    }
    whole = [{**group, "fused": True} for group in ours["param_groups"]]  # which DeepSpeed's partitions are not
    assert whole == theirs["param_groups"]
    assert two["lr_schedulers"] == one["lr_schedulers"] and two["ema"] == one["ema"]
    assert goes_on(newest_run(folder / "keys"), [*ONE, until(STEPS)]) == 0
    assert off(folder / "keys", folder) < 1e-4


def test_a_checkpoint_of_one_process_goes_on_under_zero(ranks: Ranks, adam: tuple[Path, list[str]]) -> None:
    folder, _ = adam
    run = shutil.copytree(newest_run(folder / "begun"), folder / "on" / "run")
    assert ranks(goes_on, run, [*zero(1), *MICRO, until(STEPS)]) == [0, 0]
    assert off(folder / "on", folder) < 1e-4


def test_under_zero_it_goes_on_in_parts_and_these_go_on_in_one_process(
    ranks: Ranks, adam: tuple[Path, list[str]]
) -> None:
    folder, _ = adam
    run = shutil.copytree(newest_run(folder / "begun"), folder / "parts" / "run")
    parts = zero(3, save_distributed_checkpoint="true")
    assert ranks(goes_on, run, [*parts, *MICRO, until(2)]) == [0, 0]
    assert ranks(goes_on, run, [until(3)]) == [0, 0]
    assert len([*run.rglob("rank-*.safetensors")]) == 2
    alone = [*ONE, "lightning.trainer.accumulate_grad_batches=1", until(STEPS)]
    assert goes_on(run, alone) == 0
    assert off(folder / "parts", folder) < 1e-4


def test_an_offloaded_optimizer_ends_at_the_same_weights(ranks: Ranks, adam: tuple[Path, list[str]]) -> None:
    folder, words = adam
    assert ranks(train, folder / "offloaded", [*words, *zero(2, offload_optimizer="true")]) == [0, 0]
    assert off(folder / "offloaded", folder) < 1e-4


@pytest.mark.parametrize(("stage", "precision"), [(1, "bf16-mixed"), (3, "bf16-true")])
def test_in_bfloat16_the_file_holds_the_precise_weights(
    stage: int, precision: str, ranks: Ranks, plain: tuple[Path, list[str]], pictures: Path
) -> None:
    folder, _ = plain
    name = f"half-{stage}"
    words = [*tiny(pictures, *SAME, *GROUPS), *zero(stage), f"lightning.trainer.precision={precision}"]
    assert ranks(train, folder / name, words) == [0, 0]
    half, one, start = (unet(last(folder / run)) for run in (name, "one", "start"))
    assert any(not weight.equal(weight.bfloat16().float()) for weight in half.values())
    assert 1e-3 < distance(half, one, start) < 0.05  # forward and backward see rounded weights


def test_with_moments_and_captions_from_a_cache_it_ends_at_the_weights_of_a_plain_run(
    uncached: tuple[Path, list[str]], ranks: Ranks
) -> None:
    """And knows frozen parts by their weights: what FSDP2 has kept serves it, too."""
    folder, words = uncached
    assert ranks(train, folder / "zero", [*words, *zero(2), cache_in(folder)]) == [0, 0]
    assert off(folder / "zero", folder) < 1e-4
    assert [len(list((folder / "cache" / kind).iterdir())) for kind in ("moments", "text")] == [1, 1]


def test_frozen_parts_that_are_cut_up_cannot_be_cached(
    uncached: tuple[Path, list[str]], ranks: Ranks, tmp_path: Path
) -> None:
    words = [*uncached[1], *zero(3), "data.params.cache=true"]
    assert ranks(refusal, tmp_path, words) == [(2, True), (2, True)]


def refusal(logs: Path, words: list[str]) -> tuple[int, bool]:
    """The exit code, and whether the message names the stage."""
    told = io.StringIO()
    with redirect_stderr(told):
        code = train(logs, words)
    return code, "ZeRO stage 3" in told.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_deepspeeds_own_adam_ends_at_the_same_weights(
    ranks: Ranks, adam: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its C++ is compiled here first, since a case of `ranks` has less time than that takes."""
    from deepspeed.ops.op_builder import CPUAdamBuilder

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # ninja
    CPUAdamBuilder().load(verbose=False)
    ranks.close()  # new ones begin with this PATH: another ninja would build all of it again
    folder, words = adam
    own = "model.params.optimizer_config={target: deepspeed.ops.adam.DeepSpeedCPUAdam, params: {weight_decay: 0.01}}"
    assert ranks(train, folder / "own", [*words, own, *zero(2, offload_optimizer="true")]) == [0, 0]
    assert off(folder / "own", folder) < 1e-4
