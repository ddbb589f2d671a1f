"""FSDP2 on two ranks against one process with the same global batch, and checkpoints that change strategy."""

import io
import shutil
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from safetensors.torch import load_file
from support.equality import differences, final_state
from support.ranks import Ranks
from support.runs import TINY, load, newest_run
from support.together import (
    GROUPS,
    MICRO,
    ONE,
    SAME,
    STEP_NUMBERS,
    STEPS,
    assert_same_snapshots,
    cache_in,
    distance,
    goes_on,
    last,
    off,
    rows,
    tiny,
    train,
    until,
    without_weights,
)
from torch import Tensor

from lun.convert.command import run as convert
from lun.posthoc_ema.command import run as posthoc_ema

AUTOENCODER = TINY.with_name("tiny-autoencoder.yaml")
PARAMS = "lightning.trainer.strategy.params"
FSDP = "lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP, params: {block_size: 500}}"
DDP = "lightning.trainer.strategy={target: lun.strategies.ddp.DDP}"
IN_PARTS = f"{PARAMS}.save_distributed_checkpoint=true"
DDP_IN_PARTS = (
    "lightning.trainer.strategy={target: lun.strategies.ddp.DDP, params: {save_distributed_checkpoint: true}}"
)
SHARDED = ["lightning.trainer.devices=2", FSDP]


@pytest.fixture(scope="module")
def runs(ranks: Ranks, plain: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`one` and `start` of `plain`, and `two`: the same on two ranks in micro-batches of one."""
    folder, words = plain
    two = tmp_path_factory.mktemp("fsdp")
    assert ranks(train, two, [*words, *STEP_NUMBERS, *SHARDED, *MICRO]) == [0, 0]
    return {"one": folder / "one", "start": folder / "start", "two": two}


def test_plain_descent_ends_at_the_weights_of_one_process(runs: dict[str, Path]) -> None:
    assert off(runs["two"], runs["one"].parent) < 1e-4


def test_a_checkpoint_of_shards_has_the_keys_of_one_process(runs: dict[str, Path]) -> None:
    two, one = last(runs["two"]), last(runs["one"])
    assert two.keys() == one.keys()
    assert list(two["state_dict"]) == list(one["state_dict"])
    assert two["lun"]["position"] == one["lun"]["position"]
    assert without_weights(two["ema"]) == without_weights(one["ema"])


def test_losses_of_training_and_validation_are_those_of_one_process(runs: dict[str, Path]) -> None:
    two, one = rows(runs["two"]), rows(runs["one"])
    assert {"val/loss_simple", "val/loss_simple_ema"} <= one[2].keys()
    for step in one:
        assert two[step] == pytest.approx(one[step], rel=1e-4)


def test_everything_beside_the_steps_is_written_once(runs: dict[str, Path]) -> None:
    two, one = newest_run(runs["two"]), newest_run(runs["one"])
    files = [sorted(path.name for path in run.rglob("*") if path.suffix in (".png", ".ckpt")) for run in (two, one)]
    assert files[0] == files[1] and "last.ckpt" in files[0]


def test_snapshots_of_the_ema_are_those_of_one_process(runs: dict[str, Path]) -> None:
    assert_same_snapshots(runs["two"], runs["one"])


def test_weights_pass_from_strategy_to_strategy_to_the_bit(runs: dict[str, Path], ranks: Ranks, tmp_path: Path) -> None:
    """One more step under each, at a rate of 0: what is saved again is what was loaded."""
    run = Path(shutil.copytree(newest_run(runs["one"]), tmp_path / "run"))
    before = load(run / "checkpoints/last.ckpt")
    still = ["--allow", "support", "model.base_learning_rate=0.0"]
    still += ["model.params.ema_config.params.update_every=100"]
    ddp = ["lightning.trainer.devices=2", DDP, IN_PARTS, *MICRO]
    alone = [*ONE, "lightning.trainer.accumulate_grad_batches=1"]
    assert ranks(goes_on, run, [*still, *SHARDED, *MICRO, until(STEPS + 1)]) == [0, 0]
    assert ranks(goes_on, run, [*still, *ddp, until(STEPS + 2)]) == [0, 0]
    assert len([*run.glob("checkpoints/last.ckpt.shards-*/rank-*.safetensors")]) == 2
    assert ranks(goes_on, run, [*still, *SHARDED, *MICRO, until(STEPS + 3)]) == [0, 0]
    assert goes_on(run, [*still, *alone, until(STEPS + 4)]) == 0
    after = load(run / "checkpoints/last.ckpt")
    assert after["lun"]["position"]["step"] == STEPS + 4
    assert [at for at in differences(before["state_dict"], after["state_dict"]) if "num_updates" not in at] == []


@pytest.fixture(scope="module")
def straight(ranks: Ranks, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Four steps of AdamW without a stop, and the words that say so."""
    folder = tmp_path_factory.mktemp("straight")
    adam = ["model.params.optimizer_config={target: torch.optim.AdamW}", "model.base_learning_rate=0.001"]
    more = ["lightning.trainer.gradient_clip_val=0.1", "model.params.ema_config.params.widths=[0.1]"]
    words = tiny(pictures, *SAME, *GROUPS, *SHARDED, *adam, *more)
    assert ranks(train, folder, words) == [0, 0]
    return newest_run(folder), words


def test_a_resume_of_shards_is_exact(ranks: Ranks, straight: tuple[Path, list[str]], tmp_path: Path) -> None:
    whole, words = straight
    assert ranks(train, tmp_path, [*words, until(STEPS // 2)]) == [0, 0]
    assert ranks(goes_on, newest_run(tmp_path), [until(STEPS)]) == [0, 0]
    assert differences(final_state(whole), final_state(newest_run(tmp_path))) == []


def test_offloading_and_computing_activations_twice_change_no_weight(
    runs: dict[str, Path], ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    saving = [f"{PARAMS}.cpu_offload=true", f"{PARAMS}.activation_checkpointing=true"]
    assert ranks(train, tmp_path, [*tiny(pictures, *SAME, *GROUPS), *SHARDED, *saving]) == [0, 0]
    one, start = last(runs["one"])["state_dict"], last(runs["start"])["state_dict"]
    assert distance(last(tmp_path)["state_dict"], one, start) < 1e-4


def test_with_moments_and_captions_from_a_cache_it_ends_at_the_weights_of_a_plain_run(
    uncached: tuple[Path, list[str]], ranks: Ranks, tmp_path: Path
) -> None:
    folder, words = uncached
    assert ranks(train, tmp_path, [*words, *SHARDED, "data.params.batch_size=2", cache_in(folder)]) == [0, 0]
    found, one, start = (last(logs)["state_dict"] for logs in (tmp_path, folder / "one", folder / "start"))
    assert distance(found, one, start) < 1e-4


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_half_precision_goes_about_the_same_way(
    precision: str, runs: dict[str, Path], ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = [*tiny(pictures, *SAME, *GROUPS), *SHARDED, f"lightning.trainer.precision={precision}"]
    assert ranks(train, tmp_path, words) == [0, 0]
    one, start = last(runs["one"])["state_dict"], last(runs["start"])["state_dict"]
    found = {name: tensor.to(one[name].dtype) for name, tensor in last(tmp_path)["state_dict"].items()}
    assert 1e-4 < distance(found, one, start) < 0.5


def test_a_parameter_that_would_never_be_reduced_is_refused_at_the_start(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = ["--base", str(AUTOENCODER), "--data_root", str(pictures), *SHARDED]
    assert ranks(refusal, tmp_path, words) == [(2, True), (2, True)]


def refusal(logs: Path, words: list[str]) -> tuple[int, bool]:
    """The exit code, and whether the message names the parameter."""
    told = io.StringIO()
    with redirect_stderr(told):
        code = train(logs, words)
    return code, "loss.logvar" in told.getvalue()


def test_a_checkpoint_in_parts_resumes_exactly_on_ranks_and_to_the_bit_in_one_process(
    ranks: Ranks, straight: tuple[Path, list[str]], tmp_path: Path
) -> None:
    whole, words = straight
    assert ranks(train, tmp_path / "parts", [*words, IN_PARTS, until(STEPS // 2)]) == [0, 0]
    run = newest_run(tmp_path / "parts")
    halfway = Path(shutil.copytree(run, tmp_path / "halfway"))
    assert ranks(goes_on, run, [until(STEPS)]) == [0, 0]
    (folder,) = (run / "checkpoints").glob("last.ckpt.shards-*")
    assert sorted(file.name for file in folder.glob("rank-*")) == ["rank-00000.safetensors", "rank-00001.safetensors"]
    assert differences(final_state(whole), final_state(run)) == []
    assert differences(written(whole, tmp_path / "a"), written(run, tmp_path / "b")) == []
    before = final_state(halfway)
    still = ["model.base_learning_rate=0.0", "model.params.ema_config.params.update_every=100"]
    assert goes_on(halfway, [*ONE, *still, until(STEPS // 2 + 1)]) == 0
    after = final_state(halfway)
    assert not [*halfway.rglob("*.shards-*")]
    assert [at for at in differences(before["state_dict"], after["state_dict"]) if "num_updates" not in at] == []
    widths = [state["ema"]["tracks"]["power-0.1"]["weights"] for state in (before, after)]
    assert differences(*widths) == []


def written(run: Path, folder: Path) -> list[dict[str, Tensor]]:
    """What other programs get of a run's last checkpoint: its weights, and one of its averages."""
    folder.mkdir()
    model, width = str(folder / "model.safetensors"), str(folder / "width.safetensors")
    assert convert([str(run), model, "--to", "ldm"]) == 0
    assert posthoc_ema(["export", str(run), "--track", "power-0.1", "-o", width]) == 0
    return [load_file(model), load_file(width)]
