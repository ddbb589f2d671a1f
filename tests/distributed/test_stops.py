"""Signals and errors on one of two ranks."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.ranks import Ranks
from support.runs import load, newest_run
from support.together import last, rows, tiny, train
from support.trouble import CountCollectives

from ldm.models.diffusion.ddpm import LatentDiffusion
from lun.callbacks import divergence

FSDP = "lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP, params: {block_size: 500}}"
TWO = ["lightning.trainer.devices=2", "--allow", "support", "lightning.trainer.accumulate_grad_batches=2"]


def callback(name: str, **params: Any) -> str:
    return f"lightning.callbacks.{name.lower()}={json.dumps({'target': f'support.trouble.{name}', 'params': params})}"


@pytest.mark.parametrize("signalled", [[0], [1], [0, 1]])
def test_sigterm_to_any_rank_stops_all_at_the_same_step_with_a_checkpoint(
    signalled: list[int], ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *TWO, callback("Terminated", step=2, ranks=signalled))
    assert ranks(train, tmp_path, words) == [143, 143]
    assert last(tmp_path)["lun"]["position"]["step"] == 3


def test_commands_to_a_running_training_are_carried_out_by_all_ranks_at_the_same_step(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    asked = callback("Asked", commands={"save": 1, "sample": 1, "validate": 1, "stop": 3})
    drawn = {"batch_frequency": 1000, "prompts": ["red"], "log_images_kwargs": {"ddim_steps": 1}}
    logger = {"target": "lun.callbacks.ImageLogger", "params": drawn}
    validation = {"target": "lun.data.local.Local", "params": {"data_root": str(pictures), "size": 8}}
    beside = [f"lightning.callbacks.image_logger={json.dumps(logger)}", "lightning.trainer.val_check_interval=1000"]
    words = tiny(pictures, *TWO, asked, *beside, f"data.params.validation={json.dumps(validation)}")
    assert ranks(train, tmp_path, words) == [130, 130]
    run = newest_run(tmp_path)
    assert load(run / "checkpoints/asked/step-000003.ckpt")["lun"]["position"]["step"] == 3
    assert last(tmp_path)["lun"]["position"]["step"] == 5
    drawn_at = {path.name[:21] for path in run.glob("images/samples/samples_r-0*")}
    assert drawn_at == {"samples_r-0_gs-000000", "samples_r-0_gs-000003"}
    assert [step for step, row in rows(tmp_path).items() if "val/loss_simple_ema" in row] == [4]
    assert list((run / "control").iterdir()) == []


@pytest.mark.parametrize("strategy", [[], [FSDP]], ids=["copies", "shards"])
def test_an_error_between_two_steps_ends_all_ranks_and_keeps_what_was_done(
    strategy: list[str], ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *TWO, *strategy, callback("Fails", step=2, rank=1, where="boundary"))
    assert ranks(train, tmp_path, words) == [6, 2]  # of another rank; of the person's own callback
    run = newest_run(tmp_path)
    assert load(run / "checkpoints/on_exception.ckpt")["lun"]["position"]["step"] == 2
    assert json.loads((run / "run.json").read_text())["status"] == "failed"


def loses_its_loss(logs: Path, words: list[str]) -> int:
    """The program, read late as on CUDA: in the third step the loss of the last rank alone is NaN, and no gradient."""
    real = LatentDiffusion.training_step

    def training_step(self: LatentDiffusion, batch: Any, batch_idx: int) -> Any:
        bad = self.position.step == 2 and self.global_rank == self.trainer.world_size - 1
        return real(self, batch, batch_idx) + (float("nan") if bad else 0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LatentDiffusion, "training_step", training_step)
        patch.setattr(divergence, "READ_LATE", ("cpu",))
        return train(logs, words)


def test_a_step_that_is_bad_on_one_rank_is_left_out_by_the_devices_of_all(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *TWO, "model.params.optimizer_config={target: torch.optim.AdamW, params: {fused: true}}")
    assert ranks(loses_its_loss, tmp_path, words) == [6, 6]
    kept = load(newest_run(tmp_path) / "checkpoints/on_exception.ckpt")
    assert {float(one["step"]) for one in kept["optimizer_states"][0]["state"].values()} == {2.0}


def collectives(logs: Path, words: list[str]) -> dict[str, int]:
    assert train(logs, words) == 0
    return dict(CountCollectives.counts)


def test_ranks_say_no_more_to_each_other_where_a_step_has_more_micro_batches(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    # Without an EMA, whose parts are told to all when it is saved.
    words = tiny(pictures, *TWO, callback("CountCollectives"), "lightning.trainer.max_steps=4")
    words += ["model.params.ema_config=null", "model.params.use_ema=false"]
    few, many = (
        ranks(collectives, tmp_path / str(k), [*words, f"lightning.trainer.accumulate_grad_batches={k}"])
        for k in (1, 4)
    )
    assert few == many
    assert "broadcast" not in few[0]
    assert few[0]["all_reduce"] == 3 * 4  # a step's means, whether it is finite, and all else that is agreed on
