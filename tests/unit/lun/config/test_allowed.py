import subprocess

import pytest
import torch

from ldm.errors import Fault
from lun.config import targets
from lun.config.allowed import may_import, refusal
from lun.config.targets import find_target


def of_the_user() -> None: ...


@pytest.mark.parametrize(
    "path",
    [
        "torch.nn.Identity",
        "torch.optim.AdamW",
        "torch.optim.lr_scheduler.StepLR",
        "ldm.position.Position",
        "lightning.pytorch.callbacks.LearningRateMonitor",
        "lightning.pytorch.loggers.CSVLogger",
    ],
)
def test_parts_of_a_training_run_may_be_named(path):
    assert callable(find_target(path))


@pytest.mark.parametrize(
    "path",
    [
        "torch.utils.collect_env.run",
        "torch.hub.load",
        "torch.load",
        "torch.os.system",
        "torch.nn.Module.apply",
        "torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler",
        "torch.float32",
        "torch.nn",
        "lightning.pytorch.Trainer.fit",
    ],
)
def test_what_could_do_anything_is_refused_and_never_called(path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: pytest.fail("a process was started"))
    with pytest.raises(Fault) as caught:
        find_target(path)
    assert caught.value.id == "CFG04"
    assert "refused" in caught.value.what


@pytest.mark.parametrize("path", ["os.system", "subprocess.Popen", "builtins.eval", "torchevil.X", "mine.Thing"])
def test_other_packages_are_not_even_imported(path, monkeypatch):
    monkeypatch.setattr(targets, "get_obj_from_str", lambda path: pytest.fail("imported"))
    with pytest.raises(Fault, match="CFG04"):
        find_target(path)


def test_the_fix_for_a_package_of_the_user_is_to_allow_it():
    with pytest.raises(Fault) as caught:
        find_target("json.JSONDecoder")
    assert "--allow json" in caught.value.fix


def test_a_package_of_the_user_may_be_named_once_allowed():
    assert find_target("json.JSONDecoder", ("json",)).__name__ == "JSONDecoder"
    assert find_target(f"{__name__}.of_the_user", (__name__,)) is not None


def test_an_allowed_package_allows_no_package_whose_name_begins_alike():
    assert may_import("json.x", ("json",))
    assert not may_import("jsonx.x", ("json",))


def test_an_object_is_judged_by_where_it_was_defined():
    assert refusal(subprocess.Popen) is not None
    assert refusal(torch.nn.Linear) is None


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("torch.nn.Idenity", "did you mean torch.nn.Identity?"),
        ("torch.optm.AdamW", "did you mean torch.optim?"),
        ("lun.callbacks.ImageLoger", "did you mean lun.callbacks.ImageLogger?"),
        ("lum.callbacks.ImageLogger", "did you mean lun?"),
    ],
)
def test_a_misspelt_target_suggests_a_near_one(path, fix):
    with pytest.raises(Fault) as caught:
        find_target(path)
    assert caught.value.id == "CFG04"
    assert caught.value.fix.startswith(fix)


def test_a_module_that_fails_to_import_is_a_fault_with_its_error(tmp_path, monkeypatch):
    (tmp_path / "broken_part.py").write_text("raise ValueError('half written')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Fault, match="ValueError: half written"):
        find_target("broken_part.Thing", ("broken_part",))


def test_a_package_that_a_target_needs_is_named(tmp_path, monkeypatch):
    (tmp_path / "needy_part.py").write_text("import package_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Fault) as caught:
        find_target("needy_part.Thing", ("needy_part",))
    assert caught.value.id == "DEP01"
    assert "package_that_is_not_there" in caught.value.why
