"""Steps within the backward pass in a whole training: the same weights, and bad numbers kept out."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.callbacks import Divergence, FinalCheckpoint, FusedBackward


def test_a_training_gives_the_same_weights_to_the_bit(training: Any) -> None:
    ordinary = training(5).fit().module.state_dict()
    fused = training(5, FusedBackward(), Divergence()).fit().module.state_dict()
    assert all(torch.equal(ordinary[name], fused[name]) for name in ordinary)


def test_a_resume_clips_by_the_norm_of_the_step_before(training: Any, tmp_path: Any) -> None:
    clip = {"gradient_clip_val": 0.05}
    straight = training(6, FusedBackward(), FinalCheckpoint(), **clip).fit().module.state_dict()
    training(3, FusedBackward(), FinalCheckpoint(), **clip).fit()
    again = training(6, FusedBackward(), FinalCheckpoint(), **clip).fit(tmp_path / "checkpoints/last.ckpt")
    assert all(torch.equal(straight[name], again.module.state_dict()[name]) for name in straight)
    plain = training(6, **clip).fit().module.state_dict()
    assert not all(torch.equal(straight[name], plain[name]) for name in straight)  # it does clip otherwise


class Spoilt(FusedBackward):
    """Makes the third step's loss, or a gradient of it, what it must not be."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if pl_module.position.step == 2 and self.what == "loss":
            loss = loss.detach() * torch.nan
        super().on_before_backward(trainer, pl_module, loss)
        if pl_module.position.step == 2 and self.what == "gradient":
            self.hook = pl_module.net.weight.register_hook(lambda gradient: gradient * torch.nan)


@pytest.mark.parametrize(
    ("what", "told", "dirty"),
    [
        ("loss", "loss became NaN at step 3; stopped before the weights were changed", False),
        ("gradient", "gradient became NaN at step 3; some of the weights were stepped before it was seen", True),
    ],
)
def test_numbers_that_are_not_finite_end_the_run_with_finite_weights(
    training: Any, what: str, told: str, dirty: bool
) -> None:
    tiny = training(6, Spoilt(what), Divergence())
    with pytest.raises(Fault, match=told) as stopped:
        tiny.fit()
    assert stopped.value.id == "TRN01" and "skip_steps" not in stopped.value.fix
    assert tiny.follow.diverged and tiny.follow.dirty is dirty  # what is between two steps is not saved
    assert all(weight.isfinite().all() for weight in tiny.module.parameters())


def test_weights_that_are_half_stepped_are_not_saved_after_another_error(training: Any) -> None:
    class Full(FusedBackward):
        def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
            raise RuntimeError("out of memory")

    tiny = training(2, Full())
    with pytest.raises(RuntimeError):
        tiny.fit()
    assert tiny.follow.dirty


def execution(kind: str = "one device", precision: str = "32-true", accumulate: int | None = None) -> Any:
    settings = {"accumulate_grad_batches": accumulate}
    return SimpleNamespace(kind=kind, precision=SimpleNamespace(name=precision), settings=settings)


def model(optimizer: str = "torch.optim.AdamW", automatic: bool = True) -> Any:
    return SimpleNamespace(optimizer_config={"target": optimizer}, automatic_optimization=automatic)


@pytest.mark.parametrize(
    ("run", "trained", "callbacks", "told"),
    [
        (execution(accumulate=4), model(), [], "windows of 4 micro-batches"),
        (execution(precision="16-mixed"), model(), [], "16-mixed"),
        (execution("ddp"), model(), [], "the strategy ddp"),
        (execution("fsdp"), model(), [], "the strategy fsdp"),
        (execution("deepspeed"), model(), [], "the strategy deepspeed"),
        (execution(), model(automatic=False), [], "two optimizers"),
        (execution(), model("ldm.training.several_optimizers.Joined"), [], "Joined"),
        (execution(), model("prodigyopt.Prodigy"), [], "Prodigy"),
        (execution(), model(), [Divergence(skip_steps=2)], "skip_steps"),
    ],
)
def test_what_would_step_otherwise_is_refused(run: Any, trained: Any, callbacks: list[Any], told: str) -> None:
    with pytest.raises(Fault, match=f"the backward pass cannot step with {told}") as refusal:
        FusedBackward().require_whole_steps(run, trained, callbacks)
    assert refusal.value.id == "CFG08" and refusal.value.fix


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true", "bf16-master"])
def test_a_run_on_one_device_is_not(precision: str) -> None:
    callback = instantiate_from_config({"target": "lun.callbacks.FusedBackward"})
    callback.require_whole_steps(
        execution(precision=precision), model("ldm.training.matrices.Adafactor"), [Divergence()]
    )
