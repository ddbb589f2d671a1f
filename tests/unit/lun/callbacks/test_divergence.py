import logging
from itertools import pairwise

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins.precision import MixedPrecision

import lun.callbacks.divergence
from ldm.errors import Fault
from ldm.models.base import TrainedModel
from lun.callbacks import Checkpoint, Divergence, FinalCheckpoint
from lun.callbacks.divergence import StepMeasurements, sound
from lun.checkpoints.atomic import peek

NAN, INF = float("nan"), float("inf")


def losing(module, steps, value=NAN, micro=None):
    """Make the loss `value` in the given steps, in all micro-batches or one."""
    real, seen = module.training_step, []

    def step(batch, batch_idx):
        seen.append(module.position.step)
        bad = module.position.step in steps and micro in (None, seen.count(module.position.step) - 1)
        loss = real(batch, batch_idx)
        return loss * value if bad else loss

    module.training_step = step
    return module


def spoiling_gradient(module, steps, value=NAN):
    """Make one gradient `value` in the given steps, while the loss stays finite."""
    module.net.weight.register_hook(
        lambda gradient: gradient + (value if module.position.step in steps else 0.0) * torch.eye(1, 3)
    )
    return module


def fault_of(tiny) -> Fault:
    with pytest.raises(Fault, match="TRN01") as caught:
        tiny.fit()
    return caught.value


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("spoil", [losing, spoiling_gradient])
def test_a_step_that_is_not_finite_stops_the_run_before_it_is_written(training, spoil, value):
    straight = training(3).fit().module
    tiny = training(9, Divergence())
    spoil(tiny.module, {3}, value)
    fault = fault_of(tiny)
    assert tiny.module.position.step == 3
    assert torch.equal(tiny.module.net.weight, straight.net.weight)
    assert "at step 4; stopped before the weights were changed" in fault.what
    assert fault.what.startswith("loss became" if spoil is losing else "gradient became")


def test_the_message_tells_history_rate_pictures_and_what_is_kept(training, tmp_path):
    tiny = training(20, Divergence(), Checkpoint("every", every_n_train_steps=5))
    losing(tiny.module, {12})
    fault = fault_of(tiny)
    why = fault.why
    assert "steps 3 to 12: loss " in why
    assert len(why.split("loss ")[1].split("\n")[0].split()) == 10
    assert "learning rate 0.00385, precision 32-true" in why
    assert "pictures: 24.png, 25.png\n" in why
    assert why.endswith("checkpoints/every.ckpt (finite) is kept")
    assert fault.fix.endswith(f"then --resume {tmp_path}/checkpoints/every.ckpt")


def test_of_several_micro_batches_only_the_bad_one_is_named(training):
    tiny = training(9, Divergence(), accumulate=3)
    losing(tiny.module, {2}, micro=1)
    assert "pictures: 14.png, 15.png\n" in fault_of(tiny).why


def test_where_only_the_gradient_is_bad_the_whole_step_is_named(training):
    tiny = training(9, Divergence(), accumulate=3)
    spoiling_gradient(tiny.module, {2})
    assert "pictures: 12.png, 13.png, 14.png, 15.png, 16.png, 17.png\n" in fault_of(tiny).why


def test_up_to_so_many_steps_in_a_row_are_left_out(training, caplog):
    tiny = training(9, Divergence(skip_steps=2))
    losing(tiny.module, {2, 3, 6})
    weights = []
    completed = tiny.module.window_completed
    tiny.module.window_completed = lambda n: (completed(n), weights.append(tiny.module.net.weight.detach().clone()))
    tiny.fit()
    assert tiny.module.position.step == 9
    moved = [not torch.equal(a, b) for a, b in pairwise(weights)]
    assert moved == [True, False, False, True, True, False, True, True]
    assert caplog.text.count("step left out") == 3
    assert "loss became NaN at step 4; step left out (2 of 2)" in caplog.text


def test_one_more_than_that_stops_the_run(training):
    tiny = training(9, Divergence(skip_steps=2))
    losing(tiny.module, {2, 3, 4})
    assert "at step 5" in fault_of(tiny).what


def test_two_optimizers_stepped_by_hand_are_both_watched(training):
    tiny = training(9, Divergence(), manual=True, accumulate=2)
    tiny.module.second.register_hook(lambda gradient: gradient * (NAN if tiny.module.position.step == 3 else 1))
    before = []
    tiny.module.second.register_hook(lambda gradient: before.append(tiny.module.second.detach().clone()))
    assert fault_of(tiny).what.startswith("gradient became NaN at step 4")
    assert torch.equal(tiny.module.second.detach(), before[-1])


def test_the_state_before_the_step_is_kept_and_says_that_training_diverged(training, tmp_path):
    tiny = training(9, Divergence(), FinalCheckpoint())
    losing(tiny.module, {3})
    fault_of(tiny)
    kept = peek(tmp_path / "checkpoints/on_exception.ckpt")
    assert kept["lun"]["position"]["step"] == 3
    assert kept["lun"]["diverged"] is True


def test_half_a_step_of_two_optimizers_is_not_kept(training, tmp_path):
    tiny = training(9, Divergence(), FinalCheckpoint(), manual=True)
    tiny.module.second.register_hook(lambda gradient: gradient * (NAN if tiny.module.position.step == 3 else 1))
    fault_of(tiny)
    assert not (tmp_path / "checkpoints").exists()


def test_a_healthy_run_is_the_same_with_and_without_it_and_is_not_marked(training, tmp_path):
    plain = training(5, accumulate=2).fit().module
    watched = training(5, Divergence(skip_steps=1), FinalCheckpoint(), accumulate=2).fit().module
    assert torch.equal(plain.net.weight, watched.net.weight)
    assert "diverged" not in peek(tmp_path / "checkpoints/last.ckpt")["lun"]


def with_scaler(training, steps, scale):
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=10**6)
    precision = MixedPrecision("16-mixed", "cpu", scaler)
    return training(steps, Divergence(), plugins=[precision]), scaler


def test_steps_that_the_scaler_leaves_out_are_no_fault(training):
    tiny, scaler = with_scaler(training, 9, 2.0**10)
    spoiling_gradient(tiny.module, {1, 2, 3, 4, 5, 6, 7}, INF)
    tiny.fit()
    assert tiny.module.position.step == 9
    assert scaler.get_scale() == 2.0**3


def test_several_in_a_row_at_the_least_scale_are_a_fault(training):
    tiny, _ = with_scaler(training, 99, 4.0)
    losing(tiny.module, set(range(2, 99)))
    assert "loss became NaN at step 9" in fault_of(tiny).what  # 4, 2, then five at 1 and below
    assert tiny.module.net.weight.isfinite().all()


def test_losses_under_a_scaler_are_told_unscaled(training):
    plain, scaled = training(20, Divergence()), with_scaler(training, 20, 2.0**10)[0]
    losses = []
    for tiny in (plain, scaled):
        divergence = next(c for c in tiny.trainer.callbacks if isinstance(c, Divergence))
        tiny.fit()
        losses.append([entry.loss for course in divergence._courses.values() for entry in course.taken])
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_a_norm_that_overflows_while_no_gradient_does_is_no_fault(caplog):
    caplog.set_level(logging.INFO)
    gradients = [torch.full((4,), 1e30)]
    measured = StepMeasurements(1, [0.5], float(torch.nn.utils.get_total_norm(gradients)))
    assert measured.norm == INF
    assert sound(measured, gradients)
    assert not sound(measured, [torch.tensor([1.0, NAN])])


@pytest.fixture
def fused(training, tiny_module, monkeypatch):
    """A training by fused AdamW whose numbers are read late, as on CUDA, or at once."""

    class Model(tiny_module):
        model_ema = None
        on_before_optimizer_step = TrainedModel.on_before_optimizer_step
        configure_gradient_clipping = TrainedModel.configure_gradient_clipping

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.05, fused=True)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def build(late, *callbacks, steps=9, skip_steps=0, **settings):
        monkeypatch.setattr(lun.callbacks.divergence, "READ_LATE", ("cpu",) if late else ())
        callbacks = [Divergence(skip_steps), *callbacks]
        return training(steps, *callbacks, module=Model(), gradient_clip_val=1.0, **settings)

    return build


def state_of(tiny):
    moments = tiny.trainer.optimizers[0].state_dict()["state"]
    return [*tiny.module.net.state_dict().values(), *(one for entry in moments.values() for one in entry.values())]


def same_state(one, other):
    return all(torch.equal(*pair) for pair in zip(state_of(one), state_of(other), strict=True))


@pytest.mark.parametrize("spoil", [losing, spoiling_gradient])
def test_steps_left_out_by_the_device_are_told_late_and_train_to_the_same_bits(fused, caplog, spoil):
    runs, told = [], []
    for late in (False, True):
        caplog.clear()
        tiny = fused(late, skip_steps=2, validate_every=4, accumulate=2)
        spoil(tiny.module, {0, 2, 3, 8})
        runs.append(tiny.fit())
        told.append([record.getMessage() for record in caplog.records if record.name.endswith("divergence")])
    assert same_state(*runs)
    assert told[0] == told[1] and len(told[0]) == 4


def test_what_is_read_late_stops_the_run_before_the_next_step_with_the_same_message(fused, tmp_path):
    faults, runs = [], []
    for late in (False, True):
        tiny = fused(late, FinalCheckpoint(), accumulate=2)
        faults.append(fault_of_spoilt(tiny, {3}))
        runs.append(tiny)
    assert same_state(*runs)
    assert faults[0].what == faults[1].what and "at step 4; stopped before" in faults[1].what
    assert faults[0].why == faults[1].why and "pictures: 12.png, 13.png, 14.png, 15.png\n" in faults[1].why
    kept = peek(tmp_path / "checkpoints/on_exception.ckpt")["lun"]
    assert kept["diverged"] is True and kept["position"]["step"] == 4


def fault_of_spoilt(tiny, steps):
    spoiling_gradient(tiny.module, steps)
    return fault_of(tiny)


@pytest.mark.parametrize("validate_every", [None, 5])
def test_nothing_is_validated_or_saved_as_the_end_before_the_last_step_was_looked_at(fused, validate_every, tmp_path):
    tiny = fused(True, FinalCheckpoint(), steps=5, validate_every=validate_every)
    assert "at step 5" in fault_of_spoilt(tiny, {4}).what
    assert [path.name for path in (tmp_path / "checkpoints").glob("*.ckpt")] == ["on_exception.ckpt"]
    assert tiny.module.validated == []


@pytest.mark.parametrize("settings", [{}, {"manual": True}], ids=["not fused", "two optimizers"])
def test_where_no_device_can_leave_out_a_step_it_is_waited_for(training, monkeypatch, settings):
    monkeypatch.setattr(lun.callbacks.divergence, "READ_LATE", ("cpu",))
    tiny = training(9, Divergence(), **settings)
    spoiling_gradient(tiny.module, {3})
    fault_of(tiny)
    assert tiny.module.position.step == 3 and tiny.module.net.weight.isfinite().all()


class Halves(Callback):
    """Changes gradients after they were measured."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        for weight in pl_module.net.parameters():
            weight.grad.div_(2)


@pytest.fixture
def clipped(training, tiny_module, monkeypatch):
    """Train with clipping at `limit`; gives the weights, and how many norms were taken of all gradients."""

    class Model(tiny_module):
        model_ema = None
        on_before_optimizer_step = TrainedModel.on_before_optimizer_step
        configure_gradient_clipping = TrainedModel.configure_gradient_clipping

    def train(limit, *callbacks):
        norms = []
        real = torch.nn.utils.get_total_norm
        count = lambda *args, **kwargs: norms.append(1) or real(*args, **kwargs)  # noqa: E731
        monkeypatch.setattr(lun.callbacks.divergence, "get_total_norm", count)
        monkeypatch.setattr(torch.nn.utils.clip_grad, "_get_total_norm", count)
        module = training(6, *callbacks, module=Model(), gradient_clip_val=limit, accumulate=2).fit().module
        return module.net.weight.detach(), len(norms)

    return train


@pytest.mark.parametrize("limit", [1e-3, 0.7, 1e3])
def test_one_norm_serves_clipping_too_and_trains_to_the_same_bits(clipped, limit):
    alone, norms_alone = clipped(limit)
    watched, norms = clipped(limit, Divergence())
    assert torch.equal(alone, watched)
    assert norms_alone == norms == 6


def test_a_callback_that_changes_gradients_afterwards_has_them_measured_again(clipped):
    alone, _ = clipped(0.1, Halves())
    watched, norms = clipped(0.1, Divergence(), Halves())
    assert torch.equal(alone, watched)
    assert norms == 12
