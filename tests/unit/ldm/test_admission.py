import ast
import importlib
import inspect
import pkgutil
import subprocess

import pytest
import torch

import ldm
import lun
from ldm import admission
from ldm.admission import may_import, refusal
from ldm.errors import Fault
from lun.config.targets import find_target


def of_the_user() -> None: ...


@pytest.mark.parametrize(
    "path",
    [
        "torch.nn.Identity",
        "torch.optim.AdamW",
        "torch.optim.lr_scheduler.StepLR",
        "ldm.diffusion.weighting.MinSNR",
        "ldm.modules.networks.compvis.UNetModel",
        "lun.callbacks.ImageLogger",
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
        "ldm.util.get_obj_from_str",
        "ldm.admission.grant",
        "lun.config.targets.find_target",
        "lun.weights.opening.open_model",
        "lun.weights.trust.read_trusted",
        "lun.convert.command.run",
        "ldm.files.replacing.replace_text",
        "lun.run_dir.directory.RunDirectory.create",
        "lightning.pytorch.LightningModule.load_from_checkpoint",
    ],
)
def test_what_could_do_anything_is_refused_and_never_called(path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: pytest.fail("a process was started"))
    with pytest.raises(Fault) as caught:
        find_target(path)
    assert caught.value.id == "CFG04"
    assert "refused" in caught.value.what


@pytest.mark.parametrize(
    "path",
    ["os.system", "subprocess.Popen", "builtins.eval", "torchevil.X", "mine.Thing", "lun.sample.__main__.run"],
)
def test_other_packages_are_not_even_imported(path, monkeypatch):
    monkeypatch.setattr(admission, "get_obj_from_str", lambda path: pytest.fail("imported"))
    with pytest.raises(Fault, match="CFG04"):
        find_target(path)


def test_the_fix_for_a_package_of_the_user_is_to_allow_it():
    with pytest.raises(Fault) as caught:
        find_target("json.JSONDecoder")
    assert "--allow json" in caught.value.fix


def test_a_package_of_the_user_may_be_named_once_allowed():
    admission.grant(("json", __name__))
    assert find_target("json.JSONDecoder").__name__ == "JSONDecoder"
    assert find_target(f"{__name__}.of_the_user") is not None


def test_an_allowed_package_allows_no_package_whose_name_begins_alike():
    admission.grant(("json",))
    assert may_import("json.x")
    assert not may_import("jsonx.x")


def test_a_grant_ends_with_the_next_one():
    admission.grant(("json",))
    admission.grant(())
    assert not may_import("json.x")


def test_a_subclass_of_what_is_configurable_is_not_so_by_itself():
    @admission.configurable
    class Marked: ...

    class Derived(Marked): ...

    Marked.__module__ = Derived.__module__ = "ldm.somewhere"
    assert refusal(Marked) is None
    assert refusal(Derived) is not None


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
        admission.grant(("broken_part",))
        find_target("broken_part.Thing")


def test_a_package_that_a_target_needs_is_named(tmp_path, monkeypatch):
    (tmp_path / "needy_part.py").write_text("import package_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Fault) as caught:
        admission.grant(("needy_part",))
        find_target("needy_part.Thing")
    assert caught.value.id == "DEP01"
    assert "package_that_is_not_there" in caught.value.why


def test_no_function_of_the_project_may_be_named_but_those_that_are_marked():
    """All modules are looked at, so that a new function is closed until somebody opens it."""
    open_ones, tried = set(), 0
    for name in project_modules():
        module = importlib.import_module(name)
        for owner in (module, *(found for found in vars(module).values() if inspect.isclass(found))):
            for found in vars(owner).values():
                found = getattr(found, "__func__", found)
                if inspect.isfunction(found) and admission.definition(found).startswith(("ldm.", "lun.")):
                    tried += 1
                    open_ones |= {admission.definition(found)} if refusal(found) is None else set()
    print(f"{tried} functions and methods")
    assert tried > 2000
    assert open_ones == set()


def project_modules():
    for package in (ldm, lun):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not found.name.endswith("__main__") and ".local" not in found.name:
                yield found.name


BUILDERS = {"ldm/util.py", "ldm/admission.py", "lun/config/targets.py"}
READERS = {"lun/config/declared/declarations.py"}  # looks into sources, and imports nothing that a config names
FLAGS = {"ldm/families/registry.py"}  # `--family` names the module, which is to admit it


def test_what_a_config_names_is_looked_up_in_one_place_alone(repo_root):
    """Elsewhere the import path is the program's own text."""
    for folder in ("ldm", "lun"):
        for file in (repo_root / folder).rglob("*.py"):
            if file.relative_to(repo_root).as_posix() in BUILDERS | READERS | FLAGS:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in LOOKUPS:
                    assert own_text(node.args[0]), f"{file}:{node.lineno}"


LOOKUPS = {"get_obj_from_str", "import_module", "__import__"}


def own_text(argument):
    """A constant, or a name in capitals, or what a class of ours declares as `accepts`."""
    name = getattr(argument, "id", "")
    return isinstance(argument, ast.Constant | ast.JoinedStr) or name.isupper() or name in ("named", "module")
