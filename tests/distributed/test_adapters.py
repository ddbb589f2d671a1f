"""Adapters over a frozen base on two ranks, against one process with the same global batch."""

from pathlib import Path

import pytest
from support.compvis import config_of, random_checkpoint
from support.equality import differences, final_state
from support.ranks import Ranks
from support.runs import TINY, newest_run
from support.together import MICRO, ONE, SAME, STEPS, STILL, distance, goes_on, last, off, tiny, train, until
from torch import Tensor

from ldm.files.write import write_safetensors

# Rank 1: of `down`, and of the one vector of a word, one of two ranks holds nothing.
# One of two groups is LoRA+, and a part of the adapters is frozen.
ADAPTED = [
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {"
    "one: {match: 'unet.*attn1*', kind: {target: ldm.adapters.LoRA, params: {rank: 1}}},"
    "two: {match: 'unet.*conv1', kind: {target: ldm.adapters.DoRA, params: {rank: 1}}}},"
    "embeddings: {word: {token: red, init: red, keep_norm: median}}}}",
    "model.params.training_config={target: ldm.training.rules.Rules, params: {rules: {"
    "plus: {match: '*.adapter.up', lr: 4x, weight_decay: 0.1}, still: {match: '*mid*.adapter.down', train: false}}}}",
    "model.params.optimizer_config={target: torch.optim.SGD, params: {momentum: 0.9}}",
    "model.base_learning_rate=1.0",
    "model.params.cond_stage_trainable=false",
]
STRATEGY = "lightning.trainer.strategy={target: lun.strategies.%s}"
TWO = ["lightning.trainer.devices=2", *MICRO]
ALONE = [*ONE, "lightning.trainer.accumulate_grad_batches=1"]
ZERO = "deepspeed.DeepSpeed, params: {config: {zero_optimization: {stage: %d, stage3_param_persistence_threshold: 0}}}"
KINDS = {
    "DDP": "ddp.DDP",
    "FSDP": "fsdp.FSDP, params: {block_size: 50}",
    "FSDP, base in shards": "fsdp.FSDP, params: {block_size: 500, shard_frozen: true}",
    "ZeRO 1": ZERO.replace("%d", "1"),
    "ZeRO 2": ZERO.replace("%d", "2"),
    "ZeRO 3": ZERO.replace("%d", "3"),
}
PRECISIONS = {
    "32": "32",
    "bf16-true": "bf16-true",
    "base in half": "{target: lun.strategies.precision.Bf16Mixed, params: {frozen_half: true}}",
}


def strategy(kind: str) -> str:
    return STRATEGY % KINDS[kind]


@pytest.fixture(scope="module")
def words(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("base") / "sd.safetensors"
    write_safetensors(file, random_checkpoint(config_of([TINY], pictures)))
    return [*tiny(pictures, *SAME), *ADAPTED, "--init-from", str(file)]


@pytest.fixture(scope="module")
def alone(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `one` and `start`."""
    folder = tmp_path_factory.mktemp("alone")
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "start", [*words, *ONE, *STILL]) == 0
    return folder


def test_a_step_under_each_strategy_ends_at_the_adapters_of_one_process(
    ranks: Ranks, words: list[str], alone: Path, tmp_path: Path
) -> None:
    """Also where a rank holds none of a matrix; the checkpoint of adapters alone goes from strategy to strategy."""
    pytest.importorskip("deepspeed")
    assert ranks(train, tmp_path, [*words, *TWO, strategy("FSDP"), until(1)]) == [0, 0]
    run = newest_run(tmp_path)
    assert ranks(goes_on, run, [strategy("ZeRO 2"), until(2)]) == [0, 0]
    assert goes_on(run, [*ALONE, until(3)]) == 0
    assert ranks(goes_on, run, [*TWO, strategy("FSDP, base in shards"), until(STEPS)]) == [0, 0]
    assert last(tmp_path)["base"] == last(alone / "one")["base"]
    assert off(tmp_path, alone) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_and_two_more_are_four_to_the_bit(
    ranks: Ranks, words: list[str], alone: Path, tmp_path: Path, kind: str, precision: str
) -> None:
    if "ZeRO" in kind:
        pytest.importorskip("deepspeed")
    words = [*words, *TWO, strategy(kind), f"lightning.trainer.precision={PRECISIONS[precision]}"]
    assert ranks(train, tmp_path / "straight", words) == [0, 0]
    assert ranks(train, tmp_path / "split", [*words, until(2)]) == [0, 0]
    assert ranks(goes_on, newest_run(tmp_path / "split"), [until(STEPS)]) == [0, 0]
    straight, split = (newest_run(tmp_path / name) for name in ("straight", "split"))
    assert differences(final_state(straight), final_state(split)) == []
    assert last(tmp_path / "straight")["base"] == last(alone / "one")["base"]
    found, one, start = (moved(folder, alone) for folder in (tmp_path / "straight", alone / "one", alone / "start"))
    assert distance(found, one, start) < (1e-4 if precision == "32" else 0.05)  # the network computes in half


def moved(logs: Path, alone: Path) -> dict[str, Tensor]:
    """The last weights of those that train: what is frozen is in half under ZeRO."""
    one, start = last(alone / "one")["state_dict"], last(alone / "start")["state_dict"]
    state: dict[str, Tensor] = last(logs)["state_dict"]
    return {name: tensor for name, tensor in state.items() if not one[name].equal(start[name])}
