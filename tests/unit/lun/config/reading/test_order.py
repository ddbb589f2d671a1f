"""Layers combine in an order of their own: every ordered pair of presets gives one result, or is refused."""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import Fault
from lun.config.reading import extends, order
from lun.config.reading.layers import merged
from lun.config.reading.load_layers import load_layers
from lun.config.reading.order import in_order
from lun.config.reading.presets import Preset, presets
from lun.config.reading.yaml_files import HOME

PRESETS = presets()
MODELS = [preset for preset in PRESETS if preset.group == "models"]
OTHERS = [preset for preset in PRESETS if preset.group != "models"]
FULL = """\
model:
  params:
    optimizer_config: {target: torch.optim.AdamW, params: {betas: [0.9, 0.95]}}
lightning:
  trainer: {precision: 32-true}
"""


@pytest.fixture(scope="module", autouse=True)
def _read_once(request: pytest.FixtureRequest) -> None:
    """A thousand combinations of thirty files."""
    patch = pytest.MonkeyPatch()
    for module, name in ((extends, "_read"), (extends, "find_config"), (order, "preset_of")):
        patch.setattr(module, name, cache(getattr(module, name)))
    request.addfinalizer(patch.undo)


def outcome(names: Sequence[str]) -> dict[str, Any] | list[str]:
    """The merged configuration, or what was refused."""
    try:
        layers = in_order(extends.expanded(names))
    except Fault as fault:
        return [str(fault)]
    except ExceptionGroup as group:
        return sorted(str(fault) for fault in group.exceptions)
    found: dict[str, Any] = reduce(merged, (layer.node for layer in layers)).plain()
    return found


def refused(*names: str) -> str:
    with pytest.raises((Fault, ExceptionGroup)) as caught:
        load_layers(names)
    error = caught.value
    faults = list(error.exceptions) if isinstance(error, ExceptionGroup) else [error]
    assert all(isinstance(fault, Fault) and fault.id == "CFG08" for fault in faults)
    return "\n".join(fault.render("error") for fault in faults if isinstance(fault, Fault))


def test_every_pair_of_presets_is_the_same_in_either_order_or_refused() -> None:
    pairs = [(one.name, other.name) for one, other in combinations(PRESETS, 2)]
    accepted = 0
    for pair in pairs:
        forward, backward = outcome(pair), outcome(pair[::-1])
        assert forward == backward, pair
        accepted += isinstance(forward, dict)
    assert len(pairs) > 400 and 0 < accepted < len(pairs)


@pytest.mark.parametrize("model", MODELS, ids=lambda preset: preset.name)
def test_every_pair_over_a_model_is_the_same_in_either_order_and_whole_or_refused(model: Preset) -> None:
    """Whole: neither preset loses a setting of its own to the other; what both extend may be changed by one."""
    fitting = [preset.name for preset in OTHERS if not preset.fits or model.name in preset.fits]
    base = outcome([model.name])
    alone = {name: outcome([model.name, name]) for name in fitting}
    for pair in combinations(fitting, 2):
        found = outcome((model.name, *pair))
        assert found == outcome((*pair[::-1], model.name)), (model.name, *pair)
        if isinstance(found, dict):
            shared = shared_bases(*pair)
            common = outcome([model.name, *shared]) if shared else base
            for name in pair:
                assert changes(common, alone[name]).items() <= leaves(found).items(), (model.name, *pair)


@cache
def shared_bases(one: str, other: str) -> tuple[str, ...]:
    """The presets that both extend, or the one of them that the other extends."""
    first, second = ([layer.file.stem for layer in extends.expanded([name])] for name in (one, other))
    return tuple(name for name in first if name in second)


def changes(base: Any, found: Any) -> dict[tuple[str, ...], str]:
    before = leaves(base)
    return {path: value for path, value in leaves(found).items() if before.get(path) != value}


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    if isinstance(value, dict) and value:
        return {place: leaf for key, item in value.items() for place, leaf in leaves(item, (*path, key)).items()}
    return {path: repr(value)}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("sd15", "sdxl"), "sd15 and sdxl cannot be used together"),
        (("sd15", "24gb-sdxl"), "24gb-sdxl is not for sd15"),
        (("sdxl", "4gb-lora"), "8gb-lora, 12gb-sdxl, 16gb-sdxl, 24gb-sdxl"),
        (("sd35-medium", "8gb"), "8gb is not for sd35-medium"),
        (
            ("sdxl", "24gb"),
            "offset-noise, outer-convolutions, xl-16-channels, 8gb-lora, 12gb-sdxl, 16gb-sdxl, 24gb-sdxl",
        ),
        (("bf16", "fp16"), "a single setting goes over everything: lightning.trainer.precision.target=..."),
        (("12gb", "adamw8bit"), "adafactor is part of 12gb"),
        (("sd15", "24gb", "adafactor"), "optimizer_config.params"),
        (("demo/emoji", "sd15"), "emoji and "),
        (("training-encoder", "sd15"), "training-encoder and training-txt2img cannot be used together"),
    ],
)
def test_what_does_not_go_together_is_told_by_name(names: tuple[str, ...], told: str) -> None:
    assert told in refused(*names) and told in refused(*names[::-1])


def test_every_shipped_file_lies_over_those_that_it_extends() -> None:
    files = sorted((HOME / "configs").glob("*/*.yaml"))
    for file in files:
        layers = in_order(extends.expanded([str(file)]))
        places = [layer.place for layer in layers]
        assert places[-1] == file.resolve()
        assert all(places.index(below) < places.index(layer.place) for layer in layers for below in layer.extends)
    assert len(files) > 40


def test_a_model_has_the_last_word_on_the_option_that_it_extends() -> None:
    objective = load_layers(["sd3-medium", "bf16"]).config["model"]["params"]["objective"]["params"]
    assert objective["path"]["params"]["sampling_shift"] == 3.0
    assert objective["timesteps"]["target"] == "ldm.diffusion.timesteps.Shifted"


def test_what_a_preset_is_for_it_says_itself_whatever_it_is_made_of() -> None:
    for names in (("sdxl-inpainting", "24gb-sdxl"), ("sd35-medium", "12gb-lora")):
        assert isinstance(outcome(names), dict)


def test_overlays_before_a_model_are_laid_over_it() -> None:
    config = load_layers(["bf16", "12gb", "min-snr", "sd15"]).config
    assert config == load_layers(["sd15", "min-snr", "12gb"]).config
    assert config["lightning"]["trainer"]["precision"]["target"] == "lun.strategies.precision.Bf16Mixed"
    assert config["model"]["params"]["optimizer_config"]["target"] == "ldm.training.matrices.Adafactor"


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "own.yaml").write_text(text)
        return str(tmp_path / "own.yaml")

    return write


def test_ones_own_file_goes_over_every_preset_that_comes_before_it(own: Callable[[str], str]) -> None:
    config = load_layers(["sd15", "12gb", own(FULL)]).config
    assert config["lightning"]["trainer"]["precision"] == "32-true"
    assert config["model"]["params"]["optimizer_config"]["params"] == {"betas": [0.9, 0.95]}


@pytest.mark.parametrize(("preset", "setting"), [("bf16", "precision"), ("adafactor", "optimizer_config.target")])
def test_a_preset_that_ones_own_file_would_discard_is_refused(
    preset: str, setting: str, own: Callable[[str], str]
) -> None:
    told = refused("sd15", own(FULL), preset)
    assert f"{preset} would be without effect on " in told and setting in told and "own.yaml:" in told


def test_a_preset_named_after_ones_own_file_is_used_where_they_do_not_meet(own: Callable[[str], str]) -> None:
    file = own("data:\n  params:\n    train:\n      params: {data_root: here, size: 64}\n")
    config = load_layers(["sd15", file, "kohya", "bf16"]).config
    assert config["data"]["params"]["train"]["params"]["data_root"] == "here"
    assert config == load_layers(["bf16", "kohya", "sd15", file]).config


def test_a_file_of_ones_own_may_change_what_it_extends(own: Callable[[str], str]) -> None:
    config = load_layers([own("extends: [12gb, sd15]\ndata: {params: {batch_size: 3}}\n")]).config
    assert config["data"]["params"]["batch_size"] == 3


def test_a_single_setting_decides_what_presets_disagree_on_after_one_is_left_out() -> None:
    config = load_layers(["sdxl", "fsdp"], ["lightning.trainer.precision=bf16-true"]).config
    assert config["lightning"]["trainer"]["precision"] == "bf16-true"
