"""The cache of moments through the whole program."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lightning.pytorch import LightningModule
from support.equality import differences, final_state
from support.runs import make_shapes, newest_run

from ldm.errors import Fault
from lun.launch.cache import require_first_stage

Lun = Callable[..., int]
CACHE = ["data.params.cache=true"]
STEPS = 6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cached_run_equals_the_plain_one_to_the_bit(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures are encoded one by one in both, since a convolution's last bits depend on its batch."""
    monkeypatch.setattr("lun.data.moments.fill.BATCH", 1)
    states = []
    for name, settings in (("plain", []), ("cached", CACHE)):
        one = ["data.params.batch_size=1", f"lightning.trainer.max_steps={STEPS}"]
        assert lun("-t", "-n", name, *settings, *one) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == []


def test_resumes_in_buckets_with_a_cache_equal_the_straight_run(lun: Lun, tmp_path: Path) -> None:
    data = make_shapes(tmp_path / "shapes", [(8, 8)] * 4 + [(16, 8)] * 5)
    settings = [*CACHE, "data.params.buckets={resolutions: [8], step: 4}", "data.params.train.params.mask=folder"]
    steps = f"lightning.trainer.max_steps={STEPS}"
    assert lun("-t", "-n", "straight", *settings, steps, data=data) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert lun("-t", "-n", "chain", *settings, horizon, "lightning.trainer.max_steps=2", data=data) == 0
    assert lun("-r", str(newest_run(tmp_path / "logs")), "-t", steps, base=False) == 0
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


def test_the_command_fills_what_training_then_reads(
    tmp_path: Path, repo_root: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lun.data.cache import main
    from lun.trainer import run

    monkeypatch.chdir(repo_root)
    data = make_shapes(tmp_path / "shapes", [(32, 32)] * 3)
    words = ["--base", "configs/demo/emoji.yaml", "--data_root", str(data)]
    words += [f"data.params.validation.params.data_root={data}", "data.params.batch_size=2"]
    assert main(words) == 0
    kept = sorted(cache.rglob("*.safetensors"))
    assert len(kept) == 1
    train = [*words, *CACHE, "--logdir", str(tmp_path / "logs"), "-t", "lightning.trainer.max_steps=1"]
    train += ["lightning.callbacks.image_logger=null", "lightning.trainer.num_sanity_val_steps=0"]
    assert run([*train, "--accelerator", "cpu"]) == 0
    assert sorted(cache.rglob("*.safetensors")) == kept
    assert not any("to compute" in message for message in caplog.messages[-20:])


def test_a_precision_that_is_none_is_refused(lun: Lun) -> None:
    assert lun("-t", "data.params.cache={dtype: int8}") == 2


def test_a_model_of_pixels_has_nothing_to_cache() -> None:
    with pytest.raises(Fault, match="has no first stage"):
        require_first_stage(LightningModule())
