from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from support.runs import TINY

from ldm.admission import grant
from ldm.util import Recipe
from lun.config.check import check, warnings
from lun.config.reading.load_layers import load_layers
from lun.config.top_level import PLACES


class Metadata(TypedDict, total=False):
    min_score: int
    blacklist_tags: Sequence[str]
    caption_sorter: Any


@dataclass
class Crop:
    size: int
    centre: bool = True


class Pictures:
    def __init__(
        self, data_root: str, size: int | None = 512, metadata_params: Metadata | None = None, crop: Crop | None = None
    ) -> None: ...

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {}


class Data(LightningDataModule):
    def __init__(self, batch_size: int, train: Recipe | None = None, num_workers: int = 0) -> None:
        super().__init__()


class Model(LightningModule):
    def __init__(
        self,
        unet_config: Recipe,
        image_size: int,
        scale_factor: float = 1.0,
        parameterization: Literal["eps", "v"] = "eps",
        optimizer_config: Recipe | None = None,
        objective: torch.nn.Module | None = None,
        parts: Sequence[Any] = (),
        cond_stage_config: Recipe | str | None = None,
    ) -> None:
        super().__init__()


class Beat(Callback):
    def __init__(self, every: int = 1) -> None:
        pytest.fail("a callback was built")


def sorter(ascending: bool = True) -> None: ...


CONFIG = f"""
model:
  base_learning_rate: 1.0e-4
  target: {__name__}.Model
  params:
    image_size: 8
    unet_config:
      target: torch.nn.Linear
      params: {{in_features: 4}}
data:
  target: {__name__}.Data
  params:
    batch_size: 2
    train:
      target: {__name__}.Pictures
      params: {{data_root: here}}
lightning:
  trainer: {{max_steps: 5, precision: 16-mixed, devices: "0,"}}
  callbacks:
    beat: {{target: {__name__}.Beat, params: {{every: 2}}}}
    gone: null
  logger:
    csv: {{target: lightning.pytorch.loggers.CSVLogger}}
seed: 3
x-anchors: {{anything: 1}}
"""


@pytest.fixture
def faults(tmp_path):
    def faults(*overrides: str) -> list[str]:
        file = tmp_path / "c.yaml"
        file.write_text(CONFIG)
        found = check(load_layers([str(file)], overrides))
        return [f"{fault.id}: {fault.what} | {fault.where} | {fault.why} | {fault.fix}" for fault in found]

    return faults


def only(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_a_sound_configuration_has_no_faults(faults):
    assert faults() == []


def test_an_unknown_setting_of_the_command_line_is_told_with_what_to_write(faults):
    text = only(faults("data.params.batchsize=8"))
    assert text.startswith("CFG03: unknown setting data.params.batchsize | command line (data.params.batchsize=8)")
    assert f"{__name__}.Data takes: batch_size, train, num_workers" in text
    assert text.endswith("| data.params.batch_size=8")


def test_an_unknown_setting_of_a_file_is_told_with_its_line(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG.replace("    image_size: 8", "    image_size: 8\n    scale_facter: 1.0"))
    (fault,) = check(load_layers([str(file)]))
    assert fault.where == f"{file.as_posix()}:7"
    assert fault.fix == "did you mean scale_factor?"


def test_all_faults_are_told_at_once(tmp_path):
    found = check(
        load_layers(
            [str(TINY)],
            [
                "data.params.batchsize=8",
                "model.params.image_size='64'",
                "lightning.trainer.max_step=1",
                "lightning.callbacks.images={target: lun.callbacks.ImageLogger, params: {evry: 1}}",
                "model.params.unet_config.target=torch.nn.Linar",
            ],
        )
    )
    assert len(found) == 5


def test_what_only_an_import_can_tell_is_looked_at_where_nothing_else_is_wrong(faults, monkeypatch):
    wrong = "data.params.batchsize=8"
    with monkeypatch.context() as patch:
        patch.setattr("lun.config.recipes.get_obj_from_str", lambda path: pytest.fail(f"{path} was imported"))
        only(faults(wrong, "lightning.trainer.max_step=1"))
    assert "unknown setting data.params.batchsize" in only(faults(wrong))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.params.image_size='64'", "CFG03: model.params.image_size: expected int, got '64'"),
        ("model.params.parameterization=x1", "CFG03: model.params.parameterization: expected 'eps' or 'v', got 'x1'"),
        ("model.base_learning_rate=fast", "CFG03: model.base_learning_rate: expected float or null, got 'fast'"),
        ("model.scale_lr=double", "CFG03: model.scale_lr: expected"),
        ("seed=x", "CFG03: seed: expected int or null, got 'x'"),
        (
            "model.params.unet_config.params.in_features=four",
            "CFG03: model.params.unet_config.params.in_features: expected int",
        ),
        (
            "model.params.unet_config.params.in_feature=4",
            "CFG03: unknown setting model.params.unet_config.params.in_feature",
        ),
        ("model.paramz={}", "CFG03: unknown setting model.paramz"),
        ("lightning.trainer.max_step=1", "CFG03: unknown setting lightning.trainer.max_step"),
        ("lightning.trainer.max_steps=many", "CFG03: lightning.trainer.max_steps: expected int, got 'many'"),
        ("lightning.trainer.amp_backend=native", "CFG05: lightning.trainer.amp_backend is not an argument"),
        ("lightning.trainer.logger=false", "CFG03: lightning.trainer.logger is set elsewhere"),
        ("lightning.trainr={}", "CFG03: unknown setting lightning.trainr"),
        ("lightning.callbacks.beat=5", "CFG03: lightning.callbacks.beat: expected a Callback as a recipe, got 5"),
        ("lightning.callbacks=5", "CFG03: lightning.callbacks: expected a map, got 5"),
        ("lightning.deepspeed.stge=2", "CFG03: unknown setting lightning.deepspeed.stge"),
        ("data.params.train.params.siz=2", "CFG03: unknown setting data.params.train.params.siz"),
        (
            "data.params.train.dataloader_params.shufle=true",
            "CFG03: unknown setting data.params.train.dataloader_params.shufle",
        ),
        (
            "data.params.train.params.metadata_params.min_scor=2",
            "CFG03: unknown setting data.params.train.params.metadata_params.min_scor",
        ),
        (
            "data.params.train.params.metadata_params.blacklist_tags=a",
            "CFG03: data.params.train.params.metadata_params.blacklist_tags: expected a list of str, got 'a'",
        ),
        (
            "data.params.train.params.crop={size: 2, center: true}",
            "CFG03: unknown setting data.params.train.params.crop.center",
        ),
        (
            "data.params.train.params.metadata_params.caption_sorter={target: torch.nn.Idenity}",
            "CFG04: cannot load target torch.nn.Idenity",
        ),
        (
            "model.params.parts=[{target: torch.nn.Linear, params: {in_featurs: 1}}]",
            "CFG03: unknown setting model.params.parts.0",
        ),
        ("model.target=5", "CFG04: model.target: expected an import path, got 5"),
        ("model=null", "CFG03: the configuration has no `model` section"),
    ],
)
def test_each_fault_is_found(faults, override, message):
    assert any(text.startswith(message) for text in faults(override)), faults(override)


@pytest.mark.parametrize(
    "override",
    [
        f"model.target={__name__}.Data",
        f"data.target={__name__}.Model",
        "lightning.callbacks.beat.target=torch.nn.Identity",
        "lightning.logger.csv.target=lightning.pytorch.callbacks.LearningRateMonitor",
        "data.params.train.target=torch.nn.Identity",
        "model.params.objective={target: torch.optim.AdamW}",
        "model.params.optimizer_config={target: torch.nn.Identity}",
    ],
)
def test_each_place_takes_objects_of_its_kind_alone(faults, override):
    assert any("does not fit here" in text and text.startswith("CFG04") for text in faults(override))


@pytest.mark.parametrize(
    "override",
    [
        "lightning.trainer.benchmark=true",
        "data.params.train.dataloader_params={drop_last: true, pin_memory: false}",
        "model.params.optimizer_config={target: torch.optim.AdamW, params: {betas: [0.9, 0.99], weight_decay: 1.0e-4}}",
        "model.params.objective={target: torch.nn.Identity}",
        "model.params.cond_stage_config=__is_unconditional__",
        "model.scale_lr=linear",
        "model.scale_lr=true",
        "data.params.train.params.metadata_params.caption_sorter="
        f"{{target: {__name__}.sorter, params: {{ascending: false}}}}",
        "lightning.logger.csv.params={flush_logs_every_n_steps: 5}",
        "lightning.deepspeed.stage=2",
        "data.params.train.params.size=null",
    ],
)
def test_what_is_right_passes(faults, override):
    assert faults(override) == []


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("data.params.validation.params.split.fraction=0.1", "data.params.validation"),
        ("data.params.validation.params={}", "data.params.validation"),
        ("data.params.train.params.metadata_params.caption_sorter.params.ascending=true", "caption_sorter"),
        ("model.params.optimizer_config.params.weight_decay=0.1", "model.params.optimizer_config"),
        ("model.params.objective.params.gamma=5", "model.params.objective"),
        ("lightning.trainer.precision.params.frozen_half=true", "lightning.trainer.precision"),
        ("lightning.trainer.strategy={params: {stage: 2}}", "lightning.trainer.strategy"),
        ("lightning.trainer.profiler.params.x=1", "lightning.trainer.profiler"),
        ("lightning.callbacks.new.params.x=1", "lightning.callbacks.new"),
        ("lightning.logger.new.params.x=1", "lightning.logger.new"),
        ("model.params.parts.deep.params.x=1", "model.params.parts.deep"),
    ],
)
def test_settings_of_what_has_no_target_are_refused_by_name(faults, override, place):
    assert any(f"{place} has no target" in text for text in faults(override)), faults(override)


def test_an_unknown_key_of_an_optimizer_is_told_though_its_owner_completes_it(faults):
    text = only(faults("model.params.optimizer_config={target: torch.optim.AdamW, params: {weight_dcay: 0.1}}"))
    assert "unknown setting model.params.optimizer_config.params.weight_dcay" in text


def test_a_missing_parameter_is_told(faults):
    assert only(faults("~data.params.batch_size")).startswith("CFG03: the setting data.params.batch_size is missing")


def test_a_missing_data_folder_is_mended_by_its_flag(faults):
    assert only(faults("~data.params.train.params.data_root")).endswith("--data_root DIR")


def test_a_shell_in_any_place_is_refused_before_anything_is_called(faults, monkeypatch):
    import torch.utils.collect_env as shell

    monkeypatch.setattr(shell.subprocess, "Popen", lambda *given, **more: pytest.fail("a process was started"))
    recipe = "{target: torch.utils.collect_env.run, params: {command: touch /tmp/x}}"
    for place in (
        "lightning.callbacks.evil",
        "model.params.objective",
        "model.params.unet_config",
        "data.params.train",
        "data.params.train.params.metadata_params.caption_sorter",
        "model.params.parts.deep",
        "lightning.trainer.profiler",
        "lightning.logger.evil",
        "model.params.unet_config.params.x.y",
    ):
        assert any("torch.utils.collect_env.run is refused" in text for text in faults(f"{place}={recipe}")), place


def test_the_packages_of_the_user_have_to_be_allowed(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG)
    grant(())
    assert {fault.id for fault in check(load_layers([str(file)]))} == {"CFG04"}


def test_a_broken_target_does_not_hide_faults_nested_in_its_params(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG.replace(f"{__name__}.Model", "torch.nn.Nope").replace("in_features", "in_featurs"))
    found = check(load_layers([str(file)]))
    assert [fault.id for fault in found] == ["CFG04", "CFG03"]


def test_other_sections_are_warned_of_and_free_ones_are_not(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("modle: {}\ntrain_metadata_params: {}\nx-mine: {}\nseed: 1\n")
    first, second = warnings(load_layers([str(file)]))
    assert first.endswith("the top-level section modle is not read; did you mean model?")
    assert "x-train_metadata_params" in second


@pytest.mark.parametrize(("section", "place"), PLACES.items())
def test_a_section_that_was_copied_without_its_place_is_refused_with_it(tmp_path, section, place):
    file = tmp_path / "c.yaml"
    file.write_text(f"{CONFIG}\n{section}: {{}}\n")
    merged = load_layers([str(file)])
    (fault,) = check(merged)
    assert fault.id == "CFG03" and f"the section {section} " in fault.what and f"write it as {place}," in fault.fix
    assert warnings(merged) == []


def test_parameters_of_mappings_are_walked(faults):
    assert any(
        "in_featurs" in text
        for text in faults("model.params.parts=[{inner: {target: torch.nn.Linear, params: {in_featurs: 1}}}]")
    )
