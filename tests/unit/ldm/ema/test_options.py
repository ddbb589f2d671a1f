"""LitEma's settings: late start, half-lives, widths beside the main average, and what must not change the result."""

import copy
import gc
import logging
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from diffusers.training_utils import EMAModel
from support.averages import flat, network, train, weights
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import ConstantDecay, HalfLife, PowerDecay
from ldm.errors import Fault

# Against others


def test_at_every_step_it_equals_diffusers() -> None:
    model = network()
    ours, theirs = LitEma(model, decay=0.95, update_every=1), EMAModel(model.parameters(), decay=0.95)
    for step in range(1, 200):
        train(model, step)
        ours.update(step)
        theirs.step(model.parameters())
        # theirs copies at its first call and counts from there: the same law, shifted by one step
        if step == 1:
            ours.reset(1)
            ours._main.start = 1
    expected = torch.cat([shadow.flatten() for shadow in theirs.shadow_params])
    torch.testing.assert_close(flat(ours), expected, rtol=1e-5, atol=1e-6)


def test_a_sign_flip_would_be_seen() -> None:
    """The mutant runs away from the weights, while the loss curve of a training run would look as usual."""
    parameter = nn.Parameter(torch.zeros(4))
    ema = LitEma({"w": parameter}, decay=0.9, warmup=False, update_every=1)
    parameter.data.fill_(1.0)
    flipped = flat(ema).clone()
    for step in range(1, 51):
        ema.update(step)
        flipped -= (1 - 0.9) * (parameter.detach() - flipped)
    assert abs(flat(ema)[0].item() - 1.0) < 0.01
    assert abs(flipped[0].item() - 1.0) > 1.0


# Late start


def test_before_its_start_there_is_no_average_and_no_memory_and_the_weights_stand_for_it() -> None:
    model = network()
    ema = LitEma(model, decay=0.9, update_every=5, start=12)
    for step in range(1, 12):
        train(model, step)
        ema.update(step)
    before = weights(model)
    assert not ema.started and ema.tracks() == {} and ema.state_dict() == {}
    with ema.scope():
        assert torch.equal(weights(model), before)
    train(model, 12)
    ema.update(12)
    assert ema.started
    assert torch.equal(flat(ema), weights(model))


@pytest.mark.parametrize("late", [10, 40])
def test_a_late_start_differs_from_the_full_run_by_what_it_has_not_forgotten(late: int) -> None:
    model = network()
    full, part = LitEma(model, 0.9, 1, warmup=False), LitEma(model, 0.9, 1, warmup=False, start=100 - late)
    apart = 0.0
    for step in range(1, 101):
        train(model, step)
        full.update(step)
        part.update(step)
        if step == 100 - late:
            apart = (flat(full) - flat(part)).norm().item()
    assert (flat(full) - flat(part)).norm().item() == pytest.approx(0.9**late * apart, rel=1e-2)


def test_a_share_counts_from_the_end() -> None:
    ema = LitEma(network(), start="3.5%", profile=PowerDecay(0.10), total_steps=1000)
    assert ema._main.start == 965


@pytest.mark.parametrize(
    ("start", "total"), [("3.5", 100), ("0%", 100), ("101%", 100), (-1, 100), ("soon", 100), ("5%", None), (True, 9)]
)
def test_a_start_that_says_nothing_is_refused(start: object, total: int | None) -> None:
    with pytest.raises(Fault) as caught:
        LitEma(network(), start=start, total_steps=total)  # type: ignore[arg-type]
    assert caught.value.id == "CFG08"


@pytest.mark.parametrize(
    ("start", "law", "warns"),
    [
        ("10%", ConstantDecay(0.999, warmup=False), True),
        ("10%", ConstantDecay(0.999), True),
        ("60%", ConstantDecay(0.999), False),
        ("10%", PowerDecay(0.10), False),
        (0, ConstantDecay(0.9999), False),
        (10_000, ConstantDecay(0.9), True),
    ],
)
def test_a_start_too_late_to_forget_where_it_began_is_told(start, law, warns, caplog: pytest.LogCaptureFixture) -> None:
    LitEma(network(), start=start, profile=law, total_steps=10_000)
    assert any(record.levelno >= logging.WARNING for record in caplog.records) == warns


def test_a_run_cut_before_the_start_begins_at_the_same_step() -> None:
    model = network()
    cut = LitEma(model, start="50%", total_steps=20)
    cut.update(4)
    resumed = LitEma(model, start="50%", total_steps=40)
    resumed.load_resume_state(cut.resume_state())
    resumed.update(9)
    assert not resumed.started
    resumed.update(10)
    assert resumed.started and resumed.last_update == 10


# Laws


def test_a_half_life_in_images_is_one_in_steps_of_so_many_images() -> None:
    images = LitEma(network(), half_life_images=6400, examples_per_step=64)
    assert images.profile == LitEma(network(), half_life_steps=100).profile == HalfLife(100)


@pytest.mark.parametrize(
    "given",
    [
        {"half_life_images": 10.0},
        {"half_life_images": 10.0, "half_life_steps": 1.0, "examples_per_step": 2},
        {"half_life_steps": 10.0, "profile": PowerDecay(0.1)},
    ],
)
def test_a_half_life_that_cannot_be_meant_is_refused(given) -> None:
    with pytest.raises(Fault):
        LitEma(network(), **given)


def test_auto_says_what_its_interval_costs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LitEma(network(), decay=0.999, warmup=False, update_every="auto")
    assert "every 10 steps (auto)" in caplog.text and "about 0.45 %" in caplog.text


def test_an_interval_that_is_too_wide_for_the_decay_is_told_with_a_harmless_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    LitEma(network(), decay=0.99, warmup=False, update_every=10)
    assert "moves the EMA by about 4.5 % of its distance" in caplog.text and "at most 1 would be" in caplog.text


def test_an_interval_that_is_wider_than_the_horizon_is_told_in_plain_numbers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LitEma(network(), decay=0.9, warmup=False, update_every=51)
    assert "by about 250 % of its distance" in caplog.text


@pytest.mark.parametrize("how", [{"update_every": 1}, {"decay": 0.9999}, {"decay": 0.9995, "update_every": 100}])
def test_of_an_interval_that_costs_little_nothing_is_told(caplog: pytest.LogCaptureFixture, how: dict) -> None:
    caplog.set_level(logging.INFO)
    LitEma(network(), **{"warmup": False, **how})
    assert "update_every" not in caplog.text


@pytest.mark.parametrize("interval", [10, 100])
def test_the_error_that_an_interval_costs_is_as_predicted(interval: int) -> None:
    """Weights that drift: theory says (N - 1) (1 - d) / 2 of the distance to the weights."""
    law, steps = ConstantDecay(0.999, warmup=False), 20_000
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float32))
    sampled, exact = LitEma({"w": parameter}, update_every=interval, profile=law), 0.0
    for step in range(1, steps + 1):
        parameter.data.fill_(float(step))
        exact += 0.001 * (step - exact)
        sampled.update(step)
    error = abs(flat(sampled)[0].item() - exact) / (steps - exact)
    assert error == pytest.approx(law.interval_error(interval, steps), rel=0.15, abs=1e-4)


@pytest.mark.parametrize("kind", ["random walk", "white noise"])
def test_noise_between_two_updates_costs_what_theory_says(kind: str) -> None:
    """With h = N (1 - d): h / sqrt(3) of the distance to weights that walk at random, sqrt(h / 2) of white noise."""
    decay, interval, steps, weights = 0.995, 10, 4_000, 2_048
    generator = torch.Generator().manual_seed(0)
    parameter = nn.Parameter(torch.zeros(weights, dtype=torch.float64), requires_grad=True)
    sampled = LitEma({"w": parameter}, decay, interval, warmup=False)
    exact = torch.zeros(weights, dtype=torch.float64)
    for step in range(1, steps + 1):
        noise = torch.randn(weights, generator=generator, dtype=torch.float64)
        parameter.data = parameter.data + noise if kind == "random walk" else noise
        exact.lerp_(parameter.data, 1 - decay)
        sampled.update(step)
    error = (flat(sampled).double() - exact).norm() / (exact - parameter.data).norm()
    h = interval * (1 - decay)
    assert error.item() == pytest.approx(h / 3**0.5 if kind == "random walk" else (h / 2) ** 0.5, rel=0.15)


# Widths


def test_widths_are_each_the_average_that_it_would_be_alone() -> None:
    model = network()
    together = LitEma(model, update_every=3, widths=(0.05, 0.10, 0.20))
    alone = {f"power-{w:g}": LitEma(model, update_every=3, profile=PowerDecay(w)) for w in (0.05, 0.10, 0.20)}
    for step in range(1, 40):
        train(model, step)
        together.update(step)
        for ema in alone.values():
            ema.update(step)
    assert list(together.tracks()) == ["ema", *alone]
    assert all(torch.equal(flat(together, name), flat(ema)) for name, ema in alone.items())


def test_a_width_that_is_the_main_average_takes_no_memory_of_its_own() -> None:
    ema = LitEma(network(), profile=PowerDecay(0.10), widths=(0.05, 0.10))
    assert ema.tracks()["power-0.1"].shadow is ema.tracks()["ema"].shadow
    assert list(ema.resume_state()["tracks"]) == ["power-0.05"]
    assert ema.resume_state()["same_as_ema"] == ["power-0.1"]


@pytest.mark.parametrize("cut", [1, 7, 10, 13])
def test_a_cut_run_goes_on_bit_for_bit_with_all_its_widths(cut: int) -> None:
    straight, model = network(), network()
    expected, ema = (LitEma(m, update_every=5, widths=(0.05, 0.10)) for m in (straight, model))
    for step in range(1, 24):
        train(straight, step)
        expected.update(step)
    for step in range(1, cut + 1):
        train(model, step)
        ema.update(step)
    state, numbers = copy.deepcopy(ema.state_dict()), copy.deepcopy(ema.resume_state())
    resumed = LitEma(model, update_every=5, widths=(0.05, 0.10))
    resumed.load_state_dict(state)
    resumed.load_resume_state(numbers)
    for step in range(cut + 1, 24):
        train(model, step)
        resumed.update(step)
    assert all(torch.equal(flat(resumed, name), flat(expected, name)) for name in expected.tracks())


def test_a_width_that_the_checkpoint_lacks_begins_at_the_resumed_step(caplog: pytest.LogCaptureFixture) -> None:
    model = network()
    old = LitEma(model, update_every=1)
    old.update(50)
    new = LitEma(model, update_every=1, widths=(0.05,))
    train(model, 1)
    new.load_resume_state(old.resume_state())
    track = new.tracks()["power-0.05"]
    assert (track.start, track.last_update) == (50, 50) and "begins at step 50" in caplog.text
    assert torch.equal(flat(new, "power-0.05"), weights(model))


def test_an_average_that_is_being_read_changes_only_afterwards() -> None:
    model = network()
    ema = LitEma(model, update_every=1, widths=(0.05,))
    track = ema.tracks()["power-0.05"]
    before, read = flat(ema, "power-0.05").clone(), []

    class Reader(Future[None]):
        def exception(self, timeout: float | None = None) -> None:
            read.append(torch.equal(flat(ema, "power-0.05"), before))

    train(model, 1)
    track.hold(Reader())
    copy.deepcopy(ema)
    ema.update(1)
    train(model, 2)
    ema.update(2)
    assert read == [True] and not torch.equal(flat(ema, "power-0.05"), before)


# Not finite


def test_only_numbers_that_are_not_finite_are_left_out_of_every_average() -> None:
    parameter = nn.Parameter(torch.zeros(10))
    ema = LitEma({"w": parameter}, decay=0.9, warmup=False, update_every=5, widths=(0.10,))
    parameter.data.fill_(1.0)
    parameter.data[5] = float("nan")
    ema.update(5)
    for name in ("ema", "power-0.1"):
        average = flat(ema, name)
        assert average[5].item() == 0.0 and torch.all(average[[0, 4, 6, 9]] == average[0]) and average[0] > 0.1
    assert ema.skipped_nonfinite == 1
    parameter.data[5] = 1.0
    ema.update(10)
    assert flat(ema)[5].item() == pytest.approx(1 - 0.9**5) and flat(ema)[0].item() == pytest.approx(1 - 0.9**10)


# What must not change anything


def test_fifty_swaps_leave_no_copy_behind() -> None:
    model = network()
    ema = LitEma(model, update_every=1)

    def held() -> int:
        gc.collect()
        return sum(thing.numel() for thing in gc.get_objects() if type(thing) in (Tensor, nn.Parameter))

    with ema.scope():
        pass
    before = held()
    for _ in range(50):
        with ema.scope():
            pass
    assert held() == before


def test_names_that_compilation_adds_later_change_nothing() -> None:
    model = network()
    ema = LitEma(model, update_every=1)
    compiled = nn.Module()
    compiled._orig_mod = model
    ema._source._owner = compiled  # type: ignore[attr-defined]
    train(model, 1)
    ema.update(1)
    assert ema.last_update == 1
    assert not any("_orig_mod" in name for name in ema.averaged_state())


def test_a_source_of_ones_own_is_averaged() -> None:
    class Shards:
        """As a sharded model would: this rank's part of a weight, under the weight's name."""

        def __init__(self) -> None:
            self.part = torch.zeros(3)

        def tensors(self) -> dict[str, Tensor]:
            return {"layer.weight": self.part}

    shards = Shards()
    ema = LitEma(shards, decay=0.5, warmup=False, update_every=1)
    shards.part.fill_(1.0)
    ema.update(1)
    assert ema.averaged_state()["layer.weight"].tolist() == [0.5] * 3


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:x", 0])
def test_a_device_of_no_known_kind_is_refused(device: Any) -> None:
    with pytest.raises(Fault, match="cannot lie on") as fault:
        LitEma(network(), device=device)
    assert fault.value.id == "CFG08"


def test_a_gpu_that_is_not_there_is_refused_as_the_place_of_averages() -> None:
    with pytest.raises(Fault, match="such devices") as fault:
        LitEma(network(), device="cuda:99", start=100)
    assert fault.value.id == "DEV01" and "device: cpu" in fault.value.fix


def test_no_thread_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="threads must be at least 1"):
        LitEma(network(), threads=0)
