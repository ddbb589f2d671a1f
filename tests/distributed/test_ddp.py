"""DDP on two ranks against one process with the same global batch, and with all that a run does beside its steps."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from support.equality import differences, final_state
from support.ranks import Ranks
from support.runs import load, make_shapes, newest_run
from support.slots import slots
from support.together import (
    GROUPS,
    MICRO,
    ONE,
    SAME,
    STEP_NUMBERS,
    STEPS,
    STILL,
    assert_same_snapshots,
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
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from lun.data.order.position_sampler import Window
from lun.strategies.shares import Shares

TWO = ["lightning.trainer.devices=2", "lightning.trainer.strategy=ddp"]
MASKS = "data.params.train.params.mask=folder"


@pytest.fixture(scope="module")
def runs(ranks: Ranks, plain: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`one` and `start` of `plain`, and `two`: the same on two ranks."""
    folder, words = plain
    two = tmp_path_factory.mktemp("ddp")
    assert ranks(train, two, [*words, *STEP_NUMBERS, *TWO, "lightning.callbacks.often.params.async_save=true"]) == [
        0,
        0,
    ]
    return {"one": folder / "one", "start": folder / "start", "two": two}


def test_plain_descent_ends_at_the_weights_of_one_process(runs: dict[str, Path]) -> None:
    assert off(runs["two"], runs["one"].parent) < 1e-4


def test_a_trained_text_encoder_whose_last_layer_nobody_reads_trains_on_two_ranks(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    narrow = "{hidden_size: 8, intermediate_size: 16, num_hidden_layers: 2, num_attention_heads: 2}"
    params = f"{{config: {narrow}, layer: penultimate, from_scratch: true}}"
    clip = f"{{target: ldm.modules.encoders.clip.FrozenCLIPEmbedder, params: {params}}}"
    words = tiny(pictures, *SAME, f"model.params.cond_stage_config={clip}", *TWO, until(3))
    assert ranks(train, tmp_path, words) == [0, 0]
    names = {name for name in last(tmp_path)["state_dict"] if name.startswith("model_ema.cond_stage_model")}
    assert any("layers0" in name for name in names) and not any("layers1" in name for name in names)


def test_a_checkpoint_of_two_ranks_has_the_keys_of_one_process(runs: dict[str, Path]) -> None:
    two, one = last(runs["two"]), last(runs["one"])
    assert two.keys() == one.keys()
    assert list(two["state_dict"]) == list(one["state_dict"])
    assert two["optimizer_states"][0].keys() == one["optimizer_states"][0].keys()
    assert two["lun"]["position"] == one["lun"]["position"] == {"step": STEPS, "slot": 4 * STEPS, "images": 4 * STEPS}
    assert without_weights(two["ema"]) == without_weights(one["ema"])


def test_a_checkpoint_written_beside_training_holds_what_the_last_one_holds(runs: dict[str, Path]) -> None:
    often = load(newest_run(runs["two"]) / "checkpoints/often.ckpt")
    whole = last(runs["two"])
    assert differences(often["state_dict"], whole["state_dict"]) == []
    assert differences(often["optimizer_states"], whole["optimizer_states"]) == []


def test_losses_are_means_over_both_ranks(runs: dict[str, Path]) -> None:
    two, one = rows(runs["two"]), rows(runs["one"])
    assert [step for step in one if "train/loss" in one[step]] == list(range(1, STEPS + 1))
    assert {"val/loss_simple", "val/loss_simple_ema", "val/gap", "train/grad_norm"} <= one[2].keys()
    for step in one:
        assert two[step] == pytest.approx(one[step], rel=1e-4)


def test_the_ranks_agree_on_what_is_known_of_each_picture(runs: dict[str, Path]) -> None:
    two, one = (json.loads((newest_run(runs[run]) / "metrics/pictures.json").read_text()) for run in ("two", "one"))
    counts = [{(one["path"], one["split"]): one["n"] for one in found["pictures"]} for found in (two, one)]
    assert counts[0] == counts[1] and len(counts[0]) >= 5
    stored = [last(runs[run])["callbacks"]["PictureLosses"]["levels"][""] for run in ("two", "one")]
    assert torch.allclose(*stored, rtol=1e-3)


def test_the_ranks_read_each_example_once_and_together_all_of_them(runs: dict[str, Path]) -> None:
    run = newest_run(runs["two"])
    windows = [sorted(a + b) for (_, a), (_, b) in zip(slots(run, 0), slots(run, 1), strict=True)]
    assert windows == [list(range(4 * step, 4 * step + 4)) for step in range(STEPS)]


def test_everything_beside_the_steps_is_written_once(runs: dict[str, Path]) -> None:
    two, one = newest_run(runs["two"]), newest_run(runs["one"])
    files = [sorted(path.name for path in run.rglob("*") if path.suffix in (".png", ".ckpt")) for run in (two, one)]
    assert files[0] == files[1] and "last.ckpt" in files[0] and "timeline.png" in files[0]
    assert [path.name for path in two.parent.iterdir() if not path.is_symlink()] == [two.name]


def test_snapshots_of_the_ema_are_those_of_one_process(runs: dict[str, Path]) -> None:
    assert_same_snapshots(runs["two"], runs["one"])


def averages_in_shares() -> tuple[int, int, dict[str, Tensor], list[Tensor]]:
    """Weights on this rank and in all, what ranks sent at the end, and weights before, within and after a swap."""
    torch.manual_seed(0)
    # Also weights whose memory is in another order, and such of 16 bits.
    module = nn.Sequential(nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last), nn.Linear(7, 6).bfloat16())
    ema = LitEma(Shares(module), decay=0.5, warmup=False, update_every=1)
    for parameter in module.parameters():
        parameter.data.add_(1)
    ema.update(1)
    looks = [torch.cat([p.detach().float().flatten() for p in module.parameters()])]
    with ema.scope():
        looks.append(torch.cat([p.detach().float().flatten() for p in module.parameters()]))
        raw = ema.raw_state()
    looks.append(torch.cat([p.detach().float().flatten() for p in module.parameters()]))
    held = sum(tensor.numel() for tensor in ema._source.tensors().values())
    return held, looks[0].numel(), {"raw." + k: v for k, v in raw.items()} | ema.averaged_state(), looks


def test_the_ranks_share_the_averages_and_a_swap_gives_each_all_of_them(ranks: Ranks) -> None:
    (held, total, state, looks), (other, _, nothing, others) = ranks(averages_in_shares)
    assert (held, other) == (135, total - 135) and nothing == {}  # the largest tensor, and all others
    raw, averaged, again = looks
    assert torch.equal(raw, again) and torch.allclose(averaged, raw - 0.5, atol=2e-2)
    assert all(torch.equal(a, b) for a, b in zip(looks, others, strict=True))
    for name in ("0.weight", "0.bias", "1.weight", "1.bias"):
        assert state[name].dtype == torch.float32
        assert torch.allclose(state[name], state["raw." + name].float() - 0.5, atol=5e-3)  # bfloat16 rounds
    assert torch.equal(torch.cat([state["raw." + name].float().flatten() for name in list(state)[-4:]]), raw)


def test_adam_with_clipping_and_accumulation_ends_at_the_weights_of_one_process(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    adam = ["model.params.optimizer_config={target: torch.optim.AdamW}", "model.base_learning_rate=0.001"]
    words = [*tiny(pictures, *SAME), *adam, "lightning.trainer.gradient_clip_val=0.1"]
    words += ["model.params.scheduler_config={target: ldm.lr_scheduler.WarmupCosine, params: {warm_up_steps: 4}}"]
    assert ranks(train, tmp_path / "two", [*words, *TWO, *MICRO]) == [0, 0]
    assert train(tmp_path / "one", [*words, *ONE]) == 0
    assert train(tmp_path / "start", [*words, *ONE, *STILL]) == 0
    assert off(tmp_path / "two", tmp_path) < 1e-4
    assert last(tmp_path / "two")["lr_schedulers"] == last(tmp_path / "one")["lr_schedulers"]


def test_buckets_with_masks_end_at_the_weights_of_one_process(ranks: Ranks, tmp_path: Path) -> None:
    shapes = make_shapes(tmp_path / "shapes", [(8, 8), (16, 8), (8, 16), (16, 8), (8, 8), (8, 8), (16, 8)])
    words = [*tiny(shapes, *SAME), "data.params.buckets={resolutions: [16], step: 8}", MASKS]
    assert ranks(train, tmp_path / "two", [*words, *TWO]) == [0, 0]
    assert train(tmp_path / "one", [*words, *ONE]) == 0
    assert train(tmp_path / "start", [*words, *ONE, *STILL]) == 0
    two, one, start = (last(tmp_path / name)["state_dict"] for name in ("two", "one", "start"))
    assert distance(two, one, start) < 1e-4


def train_raggedly(logs: Path, words: list[str]) -> int:
    """The four micro-batches of a window of eight hold 3 and 1 examples on rank 0, 2 and 2 on rank 1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Window, "places", ragged_places)
        return train(logs, words)


def ragged_places(window: Window, start: int, micro: int) -> range:
    bounds = {(0, 0): (0, 3), (0, 1): (3, 4), (1, 0): (4, 6), (1, 1): (6, 8)}[window.rank, micro % 2]
    return range(*(start + micro // 2 * 8 + bound for bound in bounds))


def test_ragged_micro_batches_end_at_the_weights_of_one_batch(ranks: Ranks, pictures: Path, tmp_path: Path) -> None:
    words = tiny(pictures, *SAME)
    micro = ["data.params.batch_size=2", "lightning.trainer.accumulate_grad_batches=2"]
    assert ranks(train_raggedly, tmp_path / "two", [*words, *TWO, *micro]) == [0, 0]
    whole = ["data.params.batch_size=8"]
    assert train(tmp_path / "one", [*words, *whole]) == 0
    assert train(tmp_path / "start", [*words, *whole, *STILL]) == 0
    two, one, start = (last(tmp_path / name)["state_dict"] for name in ("two", "one", "start"))
    assert distance(two, one, start) < 1e-4
    assert rows(tmp_path / "two")[STEPS]["train/loss"] == pytest.approx(
        rows(tmp_path / "one")[STEPS]["train/loss"], rel=1e-4
    )


def test_a_resume_is_exact_on_as_many_ranks_and_goes_on_on_another_number(
    runs: dict[str, Path], ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    words = tiny(pictures, *SAME, *GROUPS, *TWO)
    assert ranks(train, tmp_path / "whole", words) == [0, 0]
    assert ranks(train, tmp_path / "again", [*words, until(STEPS // 2)]) == [0, 0]
    alone = shutil.copytree(newest_run(tmp_path / "again"), tmp_path / "alone" / "run")
    assert ranks(goes_on, newest_run(tmp_path / "again"), [until(STEPS)]) == [0, 0]
    whole, again = (final_state(newest_run(tmp_path / name)) for name in ("whole", "again"))
    assert differences(whole, again) == []
    assert goes_on(alone, [*ONE, until(STEPS)]) == 0
    start = last(runs["start"])["state_dict"]
    assert distance(load(alone / "checkpoints/last.ckpt")["state_dict"], whole["state_dict"], start) < 1e-4
