"""How long a run is and how often it validates."""

import pytest

from ldm.errors import Fault
from lun.run.length import Length, settle_length, steps_for_epochs


def test_max_steps_are_taken_as_they_are() -> None:
    assert settle_length({"max_steps": 900, "val_check_interval": 225}, n=168, global_batch=32) == Length(900, 225)


def test_epochs_become_steps_that_show_every_picture_so_often() -> None:
    assert steps_for_epochs(10, n=168, global_batch=32) == 53
    assert settle_length({"max_epochs": 10}, n=168, global_batch=32).max_steps == 53


def test_the_smaller_of_steps_and_epochs_ends_the_run() -> None:
    both = {"max_steps": 20, "max_epochs": 10}
    assert settle_length(both, n=168, global_batch=32) == Length(20, 6, "max_steps 20, before max_epochs 10")
    assert settle_length(both, n=32, global_batch=32) == Length(10, 1, "max_epochs 10, before max_steps 20")


def test_fewer_pictures_than_a_batch_still_make_one_step_an_epoch() -> None:
    assert steps_for_epochs(1, n=3, global_batch=8) == 1


@pytest.mark.parametrize("trainer", [{}, {"max_steps": -1}, {"max_epochs": -1}])
def test_a_run_without_any_end_is_refused(trainer: dict[str, int]) -> None:
    with pytest.raises(Fault, match="neither max_steps nor max_epochs nor a time limit"):
        settle_length(trainer, n=168, global_batch=32)


def test_a_time_limit_alone_is_an_end() -> None:
    assert settle_length({}, n=168, global_batch=32, has_time_limit=True).max_steps == -1


@pytest.mark.parametrize(("interval", "every"), [(None, 6), (0.5, 3), (0.01, 1), (7, 7)])
def test_validation_is_counted_in_steps(interval: float | None, every: int) -> None:
    trainer = {"max_steps": 10, "val_check_interval": interval}
    assert settle_length(trainer, n=168, global_batch=32).val_every == every


def test_validation_of_a_long_epoch_comes_every_two_thousand_steps() -> None:
    assert settle_length({"max_steps": 10}, n=1_000_000, global_batch=4).val_every == 2000


@pytest.mark.parametrize(("epochs", "n", "size", "steps"), [(1, 8, 4, 2), (1, 9, 4, 3), (3, 5, 4, 4), (1, 1, 8, 1)])
def test_epochs_become_steps_rounded_up(epochs: int, n: int, size: int, steps: int) -> None:
    assert steps_for_epochs(epochs, n, size) == steps
