"""Settings by which a run fits into so much memory."""

from collections.abc import Callable
from typing import Any

import pytest

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.memory.fit import (
    ACCUMULATE,
    ADAFACTOR,
    BATCH,
    OPTIMIZER,
    PICTURES,
    Fitting,
    changed,
    fit,
    fitted,
    get,
    micro_batches,
    variants,
)
from lun.memory.forecast import Forecast
from lun.run.settings import Settings

SWITCH = "model.params.unet_config.params.gradient_checkpointing"
UNET = {"target": "ldm.modules.networks.unet.UNet", "params": {"gradient_checkpointing": False}}
ADAMW = {"target": "torch.optim.AdamW", "params": {"betas": [0.9, 0.99], "weight_decay": 0.02}}
CONFIG: dict[str, Any] = {
    "model": {"params": {"unet_config": UNET, "optimizer_config": ADAMW}},
    "data": {"params": {"batch_size": 4}},
    "lightning": {
        "trainer": {"accelerator": "cpu", "accumulate_grad_batches": 3},
        "callbacks": {"image_logger": {"target": "lun.callbacks.ImageLogger", "params": {"max_images": 4}}},
    },
}

GRAPHS = {"target": "lun.callbacks.CompiledBlocks", "params": {"cuda_graphs": True}}


def linear(asked: list[int]) -> Callable[[dict[str, Any]], Forecast]:
    """100 for weights, 50 for AdamW's states, 10 a picture, 3 where activations are computed twice, 20 a sample."""

    def predict(config: dict[str, Any]) -> Forecast:
        states = 50 if get(config, f"{OPTIMIZER}.target") == "torch.optim.AdamW" else 0
        step = 100 + states + get(config, BATCH) * (3 if get(config, SWITCH) else 10)
        asked.append(get(config, BATCH))
        return Forecast(100, 0, states, step, 0, 100 + states + 20 * get(config, PICTURES), 0)

    return predict


def chosen(limit: int, **params: Any) -> dict[str, Any]:
    config = changed(CONFIG, {PICTURES: 1, **params})
    found = fit(config, limit, linear([]), limit)
    return {**found.changes, "peak": found.peak}


@pytest.mark.parametrize(
    ("limit", "changes", "peak"),
    [
        (1000, {BATCH: 12, ACCUMULATE: 1}, 270),
        (215, {BATCH: 6, ACCUMULATE: 2}, 210),
        (190, {}, 190),
        (171, {BATCH: 2, ACCUMULATE: 6}, 170),
        (170, {BATCH: 2, ACCUMULATE: 6}, 170),
    ],
)
def test_as_many_pictures_at_a_time_as_fit_make_the_same_step(limit: int, changes: dict[str, Any], peak: int) -> None:
    assert chosen(limit) == {**changes, "peak": peak}


def test_activations_are_computed_twice_before_the_optimizer_changes() -> None:
    config = changed(CONFIG, {PICTURES: 0})
    assert fit(config, 155, linear([]), 155) == Fitting({SWITCH: True, BATCH: 1, ACCUMULATE: 12}, 153)
    found = fit(config, 130, linear([]), 130)
    assert found.changes == {
        SWITCH: True,
        f"{OPTIMIZER}.target": ADAFACTOR,
        f"{OPTIMIZER}.params.weight_decay": 0.02,
        BATCH: 6,
        ACCUMULATE: 2,
    }
    assert found.words[0] == f"{SWITCH}=true" and found.words[2] == f"{OPTIMIZER}.params.weight_decay=0.02"


def test_samples_that_are_too_many_are_drawn_one_at_a_time() -> None:
    assert fit(CONFIG, 200, linear([]), 200).changes == {PICTURES: 1}


def test_activations_are_kept_where_all_that_is_asked_for_at_a_time_fits() -> None:
    config = changed(CONFIG, {PICTURES: 0, SWITCH: True})
    assert fit(config, 195, linear([]), 195).changes == {SWITCH: False}
    assert SWITCH not in fit(config, 185, linear([]), 185).changes


def test_what_never_fits_is_refused_with_the_least_that_it_needs() -> None:
    with pytest.raises(Fault, match="DEV02") as refused:
        fit(CONFIG, 50, linear([]), 50)
    assert ADAFACTOR in refused.value.why and refused.value.fix.startswith("--fit 1.5, ")


def test_few_steps_are_predicted() -> None:
    asked: list[int] = []
    fit(changed(CONFIG, {BATCH: 64, ACCUMULATE: 1, PICTURES: 0}), 480, linear(asked), 480)
    assert asked[:2] == [1, 64] and len(asked) <= 5


def test_steps_within_the_backward_pass_are_not_divided() -> None:
    fused = changed(CONFIG, {ACCUMULATE: 1, PICTURES: 0})
    fused["lightning"]["callbacks"]["fused"] = {"target": "lun.callbacks.FusedBackward"}
    with pytest.raises(Fault, match="DEV02"):
        fit(fused, 105, linear([]), 105)
    assert fit(fused, 195, linear([]), 195).changes == {}


@pytest.mark.parametrize("written", [False, True])
def test_blocks_that_cuda_graphs_replay_keep_activations_and_whole_steps(written: bool) -> None:
    config = changed(CONFIG, {ACCUMULATE: 1, PICTURES: 0, SWITCH: written})
    config["lightning"]["callbacks"]["blocks"] = GRAPHS
    assert {get(changed(config, way.changes), SWITCH) for way in variants(config)} == {False}
    assert micro_batches(config) == [4]
    found = fit(config, 195, linear([]), 195)
    assert found.changes == ({SWITCH: False} if written else {}) and found.peak == 190


def test_eight_bits_are_chosen_where_the_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    on_card = changed(CONFIG, {"lightning.trainer.accelerator": "gpu"})
    last = [*variants(on_card)][-1].changes
    assert last[f"{OPTIMIZER}.target"] == "bitsandbytes.optim.AdamW8bit"
    assert last[f"{OPTIMIZER}.params.betas"] == [0.9, 0.99]


def test_a_strategy_that_spreads_weights_is_refused() -> None:
    spread = Settings({"lightning": {"trainer": {"strategy": "fsdp"}}}, (), ())
    with pytest.raises(Fault, match="CLI02"):
        fitted(Arguments(fit=12.0), spread)


def test_without_a_number_the_memory_is_that_of_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lun.memory.fit.forecast", linear([]))
    written = Settings(changed(CONFIG, {"lightning.trainer.accelerator": "auto"}), (), ())
    words = fitted(Arguments(fit=0.0, overrides=("a=1",)), written).overrides
    assert words == ("a=1", f"{BATCH}=12", f"{ACCUMULATE}=1")
    monkeypatch.setattr("lun.memory.fit.device_of", lambda trainer: "mps")
    with pytest.raises(Fault, match="CLI03"):
        fitted(Arguments(fit=0.0), written)
