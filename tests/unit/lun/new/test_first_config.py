"""The first configuration of one's own: written, planned, and trained with."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.runs import TINY, make_pictures

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.memory.forecast import Forecast
from lun.new.first_config import with_overlays, write_first_config
from lun.trainer import run

LINE = ["--new", "--base", str(TINY), "--max_steps", "3"]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_pictures(tmp_path / "pictures", 4)
    monkeypatch.setattr("lun.memory.fit.forecast", lambda config: Forecast(2**20, 0, 0, 2**21, 0, 0, 0))


def test_answers_become_a_file_whose_plan_and_command_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LINE, "--data_root", "pictures", "--accelerator", "cpu", "-n", "foxes"]) == 0
    text, told = Path("foxes.yaml").read_text(), capsys.readouterr().out
    assert "max_steps: 3 # steps; to train longer" in text and "on 4 images" in text
    assert yaml.safe_load(text)["data"]["params"]["train"]["params"]["data_root"] == str(Path("pictures").absolute())
    assert "3 steps = " in told and "python main.py --base foxes.yaml -t" in told
    assert run(["--base", "foxes", "--check"]) == 0


def test_what_fits_is_written_down() -> None:
    batch = ["data.params.batch_size=1", "--accumulate_grad_batches", "2"]
    write_first_config(parse([*LINE, "--data_root", "pictures", "--fit", "2", *batch]))
    made = yaml.safe_load(Path("mine.yaml").read_text())
    assert made["data"]["params"]["batch_size"] == 2
    assert made["lightning"]["trainer"] == {"max_steps": 3, "max_epochs": -1, "accumulate_grad_batches": 1}


def test_a_setting_below_one_that_was_given_as_a_map_is_written_into_it() -> None:
    words = ["data.params.train.params.captions={split_tags: ','}", "data.params.train.params.captions.keep_tags=1"]
    write_first_config(parse([*LINE, "--data_root", "pictures", "--accelerator", "cpu", *words]))
    made = yaml.safe_load(Path("mine.yaml").read_text())
    assert made["data"]["params"]["train"]["params"]["captions"] == {"split_tags": ",", "keep_tags": 1}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--data_root", "nothing"], "DAT"),
        (["--data_root", "pictures", "data.params.batchsize=1"], "CFG03"),
        (["--data_root", "pictures", "~lightning.logger"], "CLI03"),
        (["--data_root", "pictures", "-n", "there"], "CLI05"),
        ([], "CLI03"),
    ],
    ids=["no folder", "unknown setting", "a removal", "a file that is there", "no answer"],
)
def test_nothing_is_written_that_could_not_be_trained_with(
    words: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.yaml").write_text("mine")
    assert run([*LINE, "--accelerator", "cpu", *words]) in (2, 3)
    assert f"error[{fault}" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.glob("*.yaml")] == ["mine"]


@pytest.mark.parametrize("flag", ["-t", "--check", "--resume", "--seed=1", "--time-limit=1:00"])
def test_what_would_have_no_effect_beside_it_is_refused(flag: str) -> None:
    with pytest.raises(Fault, match="CLI02"):
        parse([*LINE, flag])


def test_overlays_follow_from_the_card_and_the_shapes_of_the_pictures() -> None:
    squares, mixed = np.array([[100, 100]] * 9 + [[101, 100]]), np.array([[100, 100]] * 7 + [[160, 100]] * 3)

    def added(sizes: np.ndarray, *words: str) -> tuple[str, ...]:
        given: Arguments = parse(["--new", "--base", "sd15", "--data_root", ".", *words])
        return with_overlays(given, sizes).base[1:]

    assert added(squares) == ("bf16",) and added(mixed) == ("bf16", "buckets")
    assert added(squares, "--accelerator", "cpu") == () and added(squares, "--precision", "bf16-true") == ()
    assert added(mixed, "--accelerator", "cpu", "data.params.buckets={resolutions: [512]}") == ()


def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Callable[[str], str] = iter(["lora", "sd15", "pictures", "cpu", "5 epochs"]).__next__  # type: ignore[assignment]
    monkeypatch.setattr("lun.new.first_config._terminal", lambda: lambda text: answers())  # type: ignore[call-arg]
    write_first_config(Arguments(new=True))
    made = yaml.safe_load(Path("mine.yaml").read_text())
    assert made["extends"] == ["sd15", "lora"]
    assert made["lightning"]["trainer"] == {"accelerator": "cpu", "max_epochs": 5, "max_steps": -1}
