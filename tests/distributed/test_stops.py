"""Signals and errors on one of two ranks."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.ranks import Ranks
from support.runs import load, newest_run
from support.together import last, tiny, train
from support.trouble import CountCollectives

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


def test_an_error_between_two_steps_ends_all_ranks_and_keeps_what_was_done(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *TWO, callback("Fails", step=2, rank=1, where="boundary"))
    assert ranks(train, tmp_path, words) == [6, 70]
    run = newest_run(tmp_path)
    assert load(run / "checkpoints/on_exception.ckpt")["lun"]["position"]["step"] == 2
    assert json.loads((run / "run.json").read_text())["status"] == "failed"


def collectives(logs: Path, words: list[str]) -> dict[str, int]:
    assert train(logs, words) == 0
    return dict(CountCollectives.counts)


def test_ranks_say_no_more_to_each_other_where_a_step_has_more_micro_batches(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *TWO, callback("CountCollectives"), "lightning.trainer.max_steps=4")
    few, many = (
        ranks(collectives, tmp_path / str(k), [*words, f"lightning.trainer.accumulate_grad_batches={k}"])
        for k in (1, 4)
    )
    assert few == many
    assert "broadcast" not in few[0]
