"""The page about a family of one's own, carried out: its files written, its lines run, in a folder of the reader's."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from ldm.errors import Fault
from ldm.families import registry
from lun.cli.user_code import OwnCode, admit_user_code
from lun.convert.command import run as convert
from lun.sample.command import run as sample
from lun.trainer import run as train

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-family.md").read_text("utf-8")
COMMANDS: dict[str, Callable[[list[str]], int]] = {"main.py": train, "lun.sample": sample, "lun.convert": convert}
SHORT = {
    "main.py": ["lightning.trainer.max_steps=2", "lightning.trainer.val_check_interval=2", "data.params.batch_size=4"],
    "lun.sample": ["--steps", "2"],
}


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)
    return str(found)


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what the page has one write, in a process that knows nothing of it before or after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUN_THREADS", "1")
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, OwnCode)])
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "mydit.py").write_text(block("python"), "utf-8")
    (tmp_path / "mydit.yaml").write_text(block("yaml"), "utf-8")
    sys.modules.pop("mydit", None)


def test_the_page_about_a_family_of_ones_own_does_what_it_says(tmp_path: Path) -> None:
    lines = [shlex.split(line) for line in block("sh").splitlines()]
    assert len(lines) == 4
    for line in lines:
        words = line[2:] if line[1] == "-m" else line[1:]
        more = ["lightning.callbacks.image_logger=null"] if words[0] == "main.py" else []
        assert COMMANDS[words[0]]([*words[1:], *SHORT.get(words[0], []), *more]) == 0, line
    assert (tmp_path / "drawn/sheet.png").is_file() and (tmp_path / "again/sheet.png").is_file()
    with safe_open(tmp_path / "mydit.safetensors", "pt") as file:
        assert file.metadata()["modelspec.architecture"] == "my-dit-v1"
        assert {"model.diffusion_model.dit.enter.weight", "cond_stage_model.embedding.weight"} <= set(file.keys())


def test_a_family_that_is_named_is_known_and_its_package_admitted() -> None:
    admit_user_code(families=["mydit.MY_DIT"])
    assert [family.name for family in registry.known_families()][-1] == "my-dit"


@pytest.mark.parametrize("path", ["mydit.DiT", "mydit.NONE", "nothing.NONE"])
def test_what_is_no_family_is_refused_by_its_path(path: str) -> None:
    with pytest.raises(Fault, match=re.escape(path.partition(".")[0])) as fault:
        admit_user_code(families=[path])
    assert fault.value.id == "CFG04"
