"""What a run would take, told from tensors without memory."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import yaml
from support.models import CONFIG

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import TrailingMean
from ldm.errors import Fault
from ldm.modules.losses.discriminator import NLayerDiscriminator
from ldm.util import instantiate_from_config
from lun.memory import forecast as module
from lun.memory.command import lines
from lun.memory.eight_bit import EightBit, stands_for
from lun.memory.forecast import Forecast, forecast, load_of
from lun.plan.swap_cost import swap_cost


def config(**trainer: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    found["lightning"]["trainer"] |= {"accelerator": "gpu"} | trainer
    found["lightning"]["callbacks"]["image_logger"] = {"target": "lun.callbacks.ImageLogger", "params": {}}
    found["model"]["params"]["optimizer_config"] = {"target": "torch.optim.AdamW"}
    return found


_forecasts: dict[str, Forecast] = {}


def told_of(settings: dict[str, Any]) -> Forecast:
    """The forecast, which takes a second: once for the same settings."""
    key = yaml.safe_dump(settings)
    if key not in _forecasts:
        _forecasts[key] = forecast(settings)
    return _forecasts[key]


FROZEN_HALF = {"target": "lun.strategies.precision.Bf16Mixed", "params": {"frozen_half": True}}


def adapted(elsewhere: bool = False, **trainer: Any) -> dict[str, Any]:
    """LoRA beside all of the UNet's attention, whose blocks compute their activations twice; `elsewhere`: with caches,
    and frozen parts in main memory.
    """
    found = config(**trainer)
    kind = {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}
    rules = {"attention": {"match": "unet.*attn*", "kind": kind}}
    params = found["model"]["params"]
    params |= {"adapter_config": {"target": "ldm.adapters.Adapters", "params": {"rules": rules}}}
    params |= {"cond_stage_trainable": False}
    params["unet_config"]["params"] |= {"gradient_checkpointing": True}
    if elsewhere:
        found["data"]["params"]["cache"] = True
        found["lightning"]["callbacks"]["offload"] = {"target": "lun.callbacks.OffloadFrozen"}
    return found


def fused(**trainer: Any) -> dict[str, Any]:
    """Steps within the backward pass."""
    found = config(**trainer)
    found["lightning"]["callbacks"]["fused_backward"] = {"target": "lun.callbacks.FusedBackward"}
    return found


def autoencoder(loss: Mapping[str, Any] | None = None, **trainer: Any) -> dict[str, Any]:
    """Against a discriminator that has begun; perceptual features are those of a file that is not there."""
    found: dict[str, Any] = yaml.safe_load(CONFIG.with_name("tiny-autoencoder.yaml").read_text())
    params = found["model"]["params"]
    params["optimizer_config"] = {"target": "torch.optim.AdamW"}
    found["data"]["params"]["train"]["params"]["size"] = 16
    perceptual = {"perceptual_weight": 1.0, "perceptual_path": "vgg16.pth"}
    params["lossconfig"]["params"] |= perceptual if loss is None else loss
    found["lightning"]["trainer"] |= {"accelerator": "gpu"} | trainer
    found["lightning"]["callbacks"]["image_logger"] = {"target": "lun.callbacks.ImageLogger", "params": {}}
    return found


MEASURED = {
    "32-true": config(precision="32-true"),
    "bf16-mixed": config(precision="bf16-mixed"),
    "bf16-true": config(precision="bf16-true"),
    "bf16-master": config(precision="bf16-master", accumulate_grad_batches=4),
    "fused backward": fused(precision="bf16-master"),
    "frozen half": config(precision=FROZEN_HALF),
    "adapters": adapted(precision="bf16-true"),
    "adapters alone on the card": adapted(elsewhere=True, precision=FROZEN_HALF),
    "autoencoder": autoencoder(precision="bf16-true", accumulate_grad_batches=3),
}


@pytest.mark.parametrize("settings", MEASURED.values(), ids=MEASURED)
def test_tensors_without_memory_take_what_real_ones_do(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_of(settings)
    monkeypatch.setattr(module, "FakeTensorMode", lambda **_: nullcontext())
    torch.manual_seed(0)
    assert forecast(settings) == told


def test_adapters_in_half_precision_take_four_bytes_and_have_gradients_and_moments_alone() -> None:
    told = told_of(MEASURED["adapters"])
    model = instantiate_from_config(MEASURED["adapters"]["model"])
    (group,) = model.training_plan().groups
    assert told.gradients == told.average == 4 * group.size
    assert abs(told.optimizer - 8 * group.size) <= 4 * len(group.parameters) + 8  # and a step count each
    frozen = sum(part.parameters for part in model.training_plan().parts) - group.size
    assert abs(told.weights - 2 * frozen - 4 * group.size) < 20_000  # the tables of the noise schedule


def test_what_lies_in_main_memory_is_on_the_card_while_it_computes_alone() -> None:
    here, away = told_of(adapted(precision=FROZEN_HALF)), told_of(MEASURED["adapters alone on the card"])
    network = instantiate_from_config(adapted()["model"]).training_plan().parts[0]
    assert abs(away.weights - 2 * network.parameters - 2 * network.trained) < 20_000
    assert away.weights < away.caches and here.caches == 0
    assert away.step < here.step and away.samples > away.weights


def test_blocks_that_are_streamed_are_on_the_card_two_at_a_time() -> None:
    settings = adapted(precision=FROZEN_HALF)
    whole = told_of(settings)
    settings["lightning"]["callbacks"]["swap"] = {"target": "lun.callbacks.BlockSwap"}
    streamed = told_of(settings)
    away = swap_cost(settings, instantiate_from_config(settings["model"]).training_plan().parts)
    assert away is not None and whole.weights - streamed.weights == pytest.approx(sum(away.sizes), rel=0.1)
    assert streamed.step < whole.step
    settings["lightning"]["trainer"]["accelerator"] = "cpu"  # whose memory they come from
    assert told_of(settings).weights == whole.weights


@pytest.mark.parametrize(("precision", "fused"), [("bf16-mixed", True), ("16-mixed", False)])
def test_adam_is_fused_in_the_forecast_where_a_run_on_cuda_fuses_it(precision: str, fused: bool) -> None:
    assert module.with_its_kernel({"target": "torch.optim.AdamW"}, {"precision": precision}, "cuda")["params"] == (
        {"fused": True} if fused else {}
    )


def test_adam_in_fp32_keeps_two_numbers_a_weight_and_the_average_one_in_main_memory() -> None:
    told = told_of(config(precision="32-true"))
    assert abs(told.optimizer - 2 * told.gradients) <= 0.01 * told.optimizer  # and a step count each
    assert told.average == told.gradients
    assert told.weights > told.gradients  # the first stage does not train
    assert told.peak == max(told.step, told.update, told.samples) > told.weights + told.gradients + told.optimizer


MEAN = {"profile": {"target": "ldm.ema.profiles.TrailingMean", "params": {"steps": 9, "blocks": 3}}}


@pytest.mark.parametrize(
    ("ema", "optimizer", "copies"),
    [
        ({"widths": [0.05, 0.1]}, "torch.optim.AdamW", 3),
        (MEAN, "torch.optim.AdamW", 5),
        ({"widths": [0.1]}, "schedulefree.AdamWScheduleFree", 0),  # among its states
    ],
)
def test_every_average_is_counted(ema: dict[str, Any], optimizer: str, copies: int) -> None:
    settings = config()
    settings["model"]["params"]["ema_config"] = {"target": "ldm.modules.ema.LitEma", "params": ema}
    settings["model"]["params"]["optimizer_config"] = {"target": optimizer}
    told = told_of(settings)
    assert told.average == copies * told.gradients
    assert told.optimizer >= 2 * told.gradients


def test_a_mean_over_blocks_keeps_no_more_copies_than_are_counted() -> None:
    ema = LitEma({"number": torch.nn.Parameter(torch.zeros(1))}, update_every=1, profile=TrailingMean(9, blocks=3))
    for step in range(1, 40):
        ema.update(step)
        track = ema.tracks()["ema"]
        assert 1 + len(track.blocks or ()) <= track.copies


def test_half_precision_halves_what_stays() -> None:
    whole, half = told_of(config(precision="32-true")), told_of(config(precision="bf16-true"))
    assert half.gradients == whole.gradients // 2
    assert half.weights < 0.51 * whole.weights + 10_000  # the tables of the noise schedule stay
    assert half.optimizer == whole.optimizer  # moments stay in fp32


def test_an_fp32_master_takes_two_bytes_a_weight_and_as_many_for_sums_of_gradients() -> None:
    whole, rounded = told_of(config(precision="32-true")), told_of(config(precision="bf16-true"))
    master = told_of(MEASURED["bf16-master"])
    assert master.weights - rounded.weights == whole.gradients // 2
    assert master.gradients == whole.gradients and master.optimizer == rounded.optimizer
    assert master.step > rounded.step


def test_steps_within_the_backward_pass_keep_no_gradients() -> None:
    ordinary, within = told_of(config(precision="bf16-master")), told_of(MEASURED["fused backward"])
    assert within.gradients == 0 and within.optimizer == ordinary.optimizer and within.weights == ordinary.weights
    assert within.peak < ordinary.peak


def test_frozen_parts_in_half_take_half_and_trained_ones_as_much() -> None:
    whole, half = told_of(config(precision="bf16-mixed")), told_of(config(precision=FROZEN_HALF))
    frozen = whole.weights - whole.gradients
    assert half.gradients == whole.gradients
    assert abs(whole.weights - half.weights - frozen / 2) < 10_000


def test_more_pictures_take_more() -> None:
    settings = config(precision="32-true")
    few = told_of(settings)
    settings["data"]["params"]["batch_size"] = 64
    many = told_of(settings)
    assert many.step > few.step and many.weights == few.weights


def test_an_optimizer_that_looks_at_values_is_measured_shape_by_shape() -> None:
    settings = config()
    settings["model"]["params"]["optimizer_config"] = {"target": "torch.optim.Adafactor"}
    told = told_of(settings)
    assert 0 < told.optimizer < told.gradients


def test_an_8_bit_optimizer_is_counted_without_its_library() -> None:
    assert stands_for("bitsandbytes.optim.AdamW8bit") and stands_for("bitsandbytes.optim.PagedLion8bit")
    assert not stands_for("bitsandbytes.optim.AdamW") and not stands_for("torch.optim.AdamW")
    weights = [torch.zeros(256, 256, requires_grad=True), torch.zeros(100, requires_grad=True)]
    optimizer = EightBit(weights, "bitsandbytes.optim.AdamW8bit")
    optimizer.step()
    sizes = [sum(v.numel() * v.element_size() for v in optimizer.state[weight].values()) for weight in weights]
    assert sizes == [2 * (65536 + 4 * 256), 2 * 400]


def test_an_autoencoder_and_its_discriminator_have_states_and_take_turns_with_gradients() -> None:
    both, alone = told_of(autoencoder({})), told_of(autoencoder({"disc_factor": 0}))
    judge = NLayerDiscriminator(n_layers=1)
    size = 4 * sum(parameter.numel() for parameter in judge.parameters())
    assert both.gradients == alone.gradients == both.average + 4  # the log-variance of a pixel is not averaged
    assert abs(both.optimizer - alone.optimizer - 2 * size) < 100  # and a step count each
    assert both.weights == alone.weights and both.step > alone.step


def test_pictures_and_features_take_their_part_of_an_autoencoders_step() -> None:
    plain, perceptual = told_of(autoencoder({})), told_of(autoencoder())
    assert perceptual.weights - plain.weights > 4 * 14_000_000 > 4 * plain.weights  # VGG16 without its last layers
    window = told_of(autoencoder({}, accumulate_grad_batches=5))
    assert window.step - plain.step >= 3 * 2 * 4 * (2 * 3 * 16 * 16)  # two of each earlier micro-batch in fp32


def test_an_autoencoder_that_has_no_loss_or_a_cache_is_refused_as_its_run_is() -> None:
    cached, lossless = autoencoder({}), autoencoder({})
    cached["data"]["params"]["cache"] = True
    lossless["model"]["params"]["lossconfig"] = None
    with pytest.raises(Fault, match="no first stage"):
        forecast(cached)
    with pytest.raises(Fault, match="no loss"):
        forecast(lossless)


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(Fault, match="diffusion models and autoencoders"):
        forecast({"model": {"target": "ldm.models.base.TrainedModel"}})


def test_the_words_name_the_largest() -> None:
    shown = lines(Forecast(2**30, 2**30, 2**31, 5 * 2**30, 6 * 2**30, 2**29, 2**30))
    assert shown[0] == "peak     6.0 GiB on the card"
    assert shown[1] == "stays    weights 1.0 + gradients 1.0 + optimizer 2.0"


@pytest.mark.parametrize(
    ("cache", "told"),
    [(None, (False, False)), (True, (True, True)), ({"text": None}, (True, True)), ({"text": False}, (True, False))],
)
def test_captions_are_cached_with_pictures_unless_that_is_refused(cache: Any, told: tuple[bool, bool]) -> None:
    load = load_of({"data": {"params": {"train": {}, "cache": cache}}})
    assert (load.cached, load.cached_text) == told


def test_of_several_sets_the_largest_size_counts() -> None:
    sets = {"a": {"params": {"size": 256}}, "b": {"params": {"size": 768}}, "off": None}
    assert load_of({"data": {"params": {"train": {"sets": sets}}}}).height == 768
