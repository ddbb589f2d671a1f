"""From flags and files to the configuration of a run."""

from pathlib import Path

import pytest
import yaml

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.config.reading import load_layers
from lun.run.settings import as_yaml, flags_as_overrides, layers_of, read_settings

TINY = str(Path(__file__).parents[3] / "fixtures" / "tiny.yaml")


def config(train: str, validation: str | None) -> dict[str, object]:
    splits: dict[str, object] = {"train": {"target": "x", "params": {"data_root": train}}}
    if validation is not None:
        splits["validation"] = {"target": "x", "params": {"data_root": validation}}
    return {"data": {"params": splits}}


TRAIN = "data.params.train.params.data_root"


def test_flags_become_settings_of_the_command_line() -> None:
    arguments = Arguments(seed=0, scale_lr="sqrt", init_from="a b.ckpt", data_root=("/data",))
    assert flags_as_overrides(arguments, config("x", None)) == [
        "seed=0",
        'model.scale_lr="sqrt"',
        'model.params.ckpt_path="a b.ckpt"',
        f'{TRAIN}="/data"',
    ]


def test_flags_that_were_not_given_say_nothing() -> None:
    assert flags_as_overrides(Arguments(), config("x", None)) == []


def test_what_has_no_value_is_asked_for_with_its_place() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        read_settings(Arguments(base=(TINY,)), None)
    (fault,) = raised.value.exceptions
    assert isinstance(fault, Fault)
    assert (fault.id, fault.fix) == ("CFG07", "--data_root DIR")
    assert fault.where.startswith(TINY + ":")


def test_steps_that_are_asked_for_end_a_run_and_no_preset_before_them() -> None:
    asked = Arguments(base=("sd15",), overrides=("lightning.trainer.max_steps=3000",), data_root=(".",))
    settings = read_settings(asked, None)
    assert (settings.trainer()["max_steps"], settings.trainer()["max_epochs"]) == (3000, None)
    assert [note for note in settings.notes if "gives way to max_steps" in note]


def test_all_faults_come_at_once() -> None:
    overrides = ("model.params.image_sze=8", "data.params.batch_size=many", "lightning.trainer.max_step=3")
    with pytest.raises(ExceptionGroup) as raised:
        read_settings(Arguments(base=(TINY,), overrides=overrides, data_root=(".",)), None)
    assert len(raised.value.exceptions) == 3


def test_buckets_at_the_size_of_one_set_say_what_to_write_beside_several(tmp_path: Path) -> None:
    buckets = Path(__file__).parents[4] / "configs/options/buckets.yaml"
    sets = {name: {"target": "lun.data.local.Local", "params": {"size": 64, "data_root": "."}} for name in "ab"}
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump({"data": {"params": {"train": {"sets": sets}}}}))
    with pytest.raises(ExceptionGroup) as raised:
        read_settings(Arguments(base=(TINY, str(buckets), str(tmp_path / "sets.yaml"))), None)
    (fault,) = raised.value.exceptions
    assert isinstance(fault, Fault)
    assert (fault.id, fault.fix) == ("CFG06", "data.params.buckets.resolutions=[64]")
    assert "several sets, each with one of its own: a, b" in fault.why


def test_the_configuration_written_down_reads_back_as_it_is(tmp_path: Path) -> None:
    settings = read_settings(Arguments(base=(TINY,), data_root=(str(tmp_path),)), None)
    (tmp_path / "resolved.yaml").write_text(as_yaml(settings.config))
    again = read_settings(Arguments(base=(str(tmp_path / "resolved.yaml"),)), None)
    assert again.config == settings.config
    assert yaml.safe_load(as_yaml({"a": "no", "b": 1e-4})) == {"a": "no", "b": 1e-4}


def test_files_on_the_command_line_replace_those_of_the_run() -> None:
    assert layers_of(Arguments(base=("a.yaml", "b.yaml")), None) == ["a.yaml", "b.yaml"]


def test_files_are_read_and_merged_once_whatever_flags_say(monkeypatch: pytest.MonkeyPatch) -> None:
    merged_files: list[object] = []

    def once(*given: object) -> object:
        merged_files.append(given)
        return load_layers.read_layers(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("lun.run.settings.read_layers", once)
    settings = read_settings(Arguments(base=(TINY,), overrides=("seed=3",), data_root=("pictures",), seed=4), None)
    assert settings.config["seed"] == 4
    assert settings.config["data"]["params"]["train"]["params"]["data_root"] == "pictures"
    assert len(merged_files) == 1
