import pytest

from ldm.errors import Fault
from lun.loop.lightning_internals import INSIDES, inside, restore_loop_counters, silence_sigterm


def test_every_inner_counter_that_is_touched_exists_in_this_lightning(training):
    trainer = training(1).trainer
    for path in INSIDES:
        assert inside(trainer, path) is not None


def test_a_counter_that_is_gone_is_a_fault_that_names_it(training):
    with pytest.raises(Fault, match=r"DEP01.*does not fit[\s\S]*fit_loop\.nowhere"):
        inside(training(1).trainer, "fit_loop.nowhere")


def test_the_step_count_of_lightning_is_the_one_it_is_seated_at(training):
    tiny = training(9, accumulate=3).fit()
    restore_loop_counters(tiny.trainer, tiny.module, step=5, optimizer_steps=5)
    assert tiny.trainer.global_step == 5
    assert tiny.trainer.fit_loop.total_batch_idx == 14


def test_two_hand_driven_optimizers_are_seated_at_their_sum(training):
    tiny = training(2, manual=True).fit()
    restore_loop_counters(tiny.trainer, tiny.module, step=5, optimizer_steps=10)
    assert tiny.trainer.global_step == 10


def test_ranks_are_not_asked_about_sigterm_before_every_batch(training):
    trainer = training(1).trainer
    silence_sigterm(trainer)
    assert trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor() is None
