"""Bad input: one clear message, the exit code, nothing created."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import TINY, make_pictures

from ldm.errors import Fault
from lun.strategies.execution import require_device

Lun = Callable[..., int]


@pytest.fixture
def told(lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`told(*arguments) -> (exit code, message)`; nothing may be created, and no traceback shown."""

    def start(*arguments: str, **how: object) -> tuple[int, str]:
        code = lun("-t", *arguments, **how)
        seen = capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err
        assert not (tmp_path / "logs").exists()
        assert list((tmp_path / "cwd").iterdir()) == []
        return code, seen.err

    return start


Told = Callable[..., tuple[int, str]]


def test_no_such_config(told: Told) -> None:
    code, message = told("--base", "configs/nope.yaml", base=False)
    assert code == 2
    assert message.startswith("error[CFG01]: config file not found: configs/nope.yaml\n  where: --base, file 1")


def test_broken_yaml(told: Told, tmp_path: Path) -> None:
    (tmp_path / "tab.yaml").write_text("model:\n\ttarget: x\n")
    code, message = told("--base", str(tmp_path / "tab.yaml"), base=False)
    assert code == 2
    assert message.startswith("error[CFG02]:") and "TAB" in message and "tab.yaml:2" in message


def test_unknown_and_ill_typed_keys_come_together(told: Told, tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text("model:\n  params:\n    scale_facter: 1.0\n    image_size: '64'\n")
    code, message = told("--base", str(TINY), str(tmp_path / "typo.yaml"), "--data_root", ".", base=False)
    assert code == 2
    assert "error[CFG03]: unknown setting model.params.scale_facter" in message and "typo.yaml:3" in message
    assert "did you mean scale_factor?" in message
    assert "image_size: expected int, got '64'" in message


def test_unknown_target(told: Told) -> None:
    code, message = told("model.params.first_stage_config.params.lossconfig.target=torch.nn.Idenity")
    assert code == 2
    assert "error[CFG04]: cannot load target torch.nn.Idenity" in message and "torch.nn.Identity?" in message


def test_a_target_that_would_run_commands(told: Told, tmp_path: Path) -> None:
    harm = tmp_path / "harmed"
    code, message = told(
        "lightning.callbacks.x.target=torch.utils.collect_env.run", f"lightning.callbacks.x.params.command=touch {harm}"
    )
    assert code == 2 and message.startswith("error[CFG04]:")
    assert not harm.exists()


def test_unknown_flag(told: Told) -> None:
    code, message = told("--acelerator", "cpu")
    assert code == 2
    assert message.startswith("error[CLI03]: unknown option --acelerator\n  fix:   did you mean --accelerator?")


def test_flags_that_exclude_each_other(told: Told) -> None:
    code, message = told("-r", "logs/x", "--init-from", "y.ckpt", base=False)
    assert code == 2 and message.startswith("error[CLI02]:")


def test_no_data_root_given(told: Told) -> None:
    code, message = told(data=None)
    assert code == 2
    assert message.startswith("error[CFG07]: data.params.train.params.data_root has no value")
    assert "fix:   --data_root DIR" in message


def test_missing_data_root(told: Told, tmp_path: Path) -> None:
    code, message = told(data=tmp_path / "nowhere")
    assert code == 3
    assert message.startswith(f"error[DAT01]: data folder not found: {tmp_path / 'nowhere'}")
    assert f"the nearest existing parent is {tmp_path}" in message


def test_empty_dataset(told: Told, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, message = told(data=tmp_path / "empty")
    assert code == 3 and message.startswith("error[DAT02]: 0 images")


def test_missing_captions(told: Told, tmp_path: Path) -> None:
    make_pictures(tmp_path / "data", 2)
    for caption in (tmp_path / "data/txt").iterdir():
        caption.unlink()
    code, message = told(data=tmp_path / "data")
    assert code == 3 and message.startswith("error[DAT04]: none of the 2 images has a caption")
    assert "default_caption=" in message


def test_resume_from_a_directory_without_checkpoints(told: Told, tmp_path: Path) -> None:
    for folder in ("configs", "checkpoints"):
        (tmp_path / "run" / folder).mkdir(parents=True)
    code, message = told("-r", str(tmp_path / "run"), base=False)
    assert code == 2 and message.startswith(f"error[RES01]: no checkpoint in {tmp_path / 'run'}")


def test_resume_from_what_is_no_run(told: Told, tmp_path: Path) -> None:
    code, message = told("-r", str(tmp_path / "nowhere"), base=False)
    assert code == 2 and message.startswith(f"error[RES01]: there is no {tmp_path / 'nowhere'}")


def test_a_part_without_weights(told: Told) -> None:
    code, message = told("~model.params.unet_config.params.from_scratch")
    assert code == 4 and message.startswith("error[MOD06]: the UNet got no weights")


def test_weights_that_are_not_there(told: Told) -> None:
    code, message = told("--init-from", "models/sd.ckpt")
    assert code == 4 and message.startswith("error[MOD01]:") and "models/sd.ckpt" in message


def test_a_gpu_that_is_not_there(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, message = told("lightning.trainer.accelerator=gpu")
    assert code == 5 and message.startswith("error[DEV01]:") and "--accelerator cpu" in message


def test_a_gpu_that_is_not_there_is_answered_to_an_installed_wheel_without_a_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(Fault, match="DEV01") as checkout:
        require_device({"accelerator": "gpu"})
    monkeypatch.setattr("ldm.missing_packages.PROJECT", tmp_path)
    with pytest.raises(Fault, match="DEV01") as wheel:
        require_device({"accelerator": "gpu"})
    assert "scripts/setup.sh" in checkout.value.fix
    assert "scripts/" not in wheel.value.fix and "pip install torch" in wheel.value.fix


def test_a_run_without_an_end(told: Told) -> None:
    code, message = told("lightning.trainer.max_steps=-1")
    assert code == 2 and "neither max_steps nor max_epochs nor a time limit is set" in message


def test_pictures_smaller_than_a_latent_are_told_by_their_size(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    assert lun("-t", "data.params.train.params.size=1") == 2
    assert "too small for this first stage" in capsys.readouterr().err
