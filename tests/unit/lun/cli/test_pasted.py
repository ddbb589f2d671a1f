"""What is printed to be pasted gives the same words back to a shell."""

import ast
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ldm.errors import Fault
from ldm.files.sniff import bare_pickle
from ldm.modules.losses.lpips import no_features
from lun.cli.parser import parse
from lun.console.fault_flags import with_flags
from lun.data.index.missing_folder import check_folder
from lun.loop.rank_failures import rank_failure
from lun.program import as_started
from lun.run.session import Session
from lun.run_dir.resume import find_checkpoint

NASTY = ["a b", "[x]", "{y: 1}", "it's", 'say "no"', "k=v w", "$HOME", "a;b", "~a", "*", "né", "#1", "a&b", "(c)"]
ROOT = Path(__file__).parents[4]
# A flag, a command or a key whose value follows at once.
LEADING = re.compile(
    r"(?:^|[\s(])(?:--?[A-Za-z][\w-]*|\S*main\.py|-m lun\.\w+|rm|convert|[a-z_]+(?:\.[a-z_]+)+=|--to \w+)(?: |(?<==))$"
)
SETTING = re.compile(r"(?:^|\s)~?[a-z_]+(?:\.\w+)+=(?!\{\})[\[{(*]")
# Numbers and names of our own, which no shell takes apart.
PLAIN = {"near", "side", "first", "half", "twice", "size", "kind", "more", "best", "near[0]", "self.limit", "norms"}
PLAIN |= {"asked", "choices[0]", "ENDINGS[out.suffix]", "settings.to", "batch_size * accumulate"}


def sources():
    return [path for folder in ("lun", "ldm") for path in sorted((ROOT / folder).rglob("*.py"))]


def inserted(tree: ast.AST):
    """(text before, value) of each value that is put into a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            before = ""
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield before, part
                before = str(part.value) if isinstance(part, ast.Constant) else ""


def docstrings(tree: ast.AST):
    owners = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    firsts = (node.body[0] for node in owners if node.body)
    return {id(first.value) for first in firsts if isinstance(first, ast.Expr)}


def test_every_value_that_is_put_into_a_command_is_quoted_by_one_function():
    seen, wrong = 0, []
    for path in sources():
        for before, part in inserted(ast.parse(path.read_text())):
            if LEADING.search(before):
                seen += 1
                value = ast.unparse(part.value)
                if not value.startswith("quoted(") and value not in PLAIN:
                    wrong.append(f"{path}:{part.lineno} {before[-30:]!r} {value}")
    assert seen >= 30 and wrong == []


def test_no_setting_with_brackets_is_shown_unquoted():
    wrong = []
    for path in sources():
        tree = ast.parse(path.read_text())
        about = docstrings(tree)
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if id(node) not in about and SETTING.search(text):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {text}")
    assert wrong == []


def fix_of(act) -> str:
    with pytest.raises(Fault) as caught:
        act()
    return caught.value.fix


def shells(text: str, begins: str) -> list[str]:
    """The words after `begins`, as a shell reads that line of a text."""
    (line,) = [line for line in text.splitlines() if begins in line]
    return shlex.split(line[line.index(begins) :].partition("        ")[0], comments=False)


def run_of(folder: Path) -> Path:
    for name in ("configs", "checkpoints"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", NASTY)
def test_the_words_come_back_from_every_line_that_is_printed_to_be_pasted(name, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "lun")
    run, file = run_of(tmp_path / name), tmp_path / name / "checkpoints" / f"{name}.ckpt"
    (tmp_path / "data").mkdir()
    folder = tmp_path / "data" / f"{name} pictures"
    folder.mkdir()
    plan = ["-b", "sd15", f"data.params.x={name}", "--data_root", name]
    Session.say_how_to_train(SimpleNamespace(), plan)
    told = caplog.messages[-1]
    assert shells(told, "python main.py") == ["python", "main.py", *plan, "-t"]
    both = fix_of(lambda: parse([f"--resume={name}", f"--init-from={name}"]))
    assert shells(both, "python main.py --resume") == ["python", "main.py", "--resume", name, "-t"]
    assert shells(both, "--init-from") == ["--init-from", name, "-t"]
    assert shells(fix_of(lambda: parse([f"--lr={name}"])), "python main.py")[4] == f"model.base_learning_rate={name}"
    file.write_bytes(b"")
    assert shells(fix_of(lambda: find_checkpoint(str(file))), "--resume") == ["--resume", str(run)]
    other = file.with_name("other.ckpt")
    assert shells(fix_of(lambda: find_checkpoint(str(other))), "--resume")[1] in (str(run), str(file))
    assert shells(rank_failure(run, 0).fix, "--resume")[1] == str(file)
    assert shells(with_flags(bare_pickle(file).fix), "python -m")[3] == str(file)
    assert shells(fix_of(lambda: check_folder(tmp_path / "data" / f"{name} picture")), "--data_root")[1] == str(folder)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / name))
    assert len(shells(no_features().fix, "model.params.lossconfig.params.perceptual_path")) == 1


@pytest.mark.parametrize(
    ("started", "script", "line"),
    [
        ("python", "main.py", "python main.py -t; python -m lun.convert x"),
        (".venv/bin/python", "main.py", ".venv/bin/python main.py -t; .venv/bin/python -m lun.convert x"),
        ("python3", "../lun/main.py", "python3 ../lun/main.py -t; python3 -m lun.convert x"),
        ("/my venv/bin/python", "main.py", "'/my venv/bin/python' main.py -t; '/my venv/bin/python' -m lun.convert x"),
        ("/usr/bin/python", "/no path/bin/lun-train", "'/no path/bin/lun-train' -t; '/no path/bin/lun-convert' x"),
        ("/usr/bin/python", "PATH/lun-sample", "lun-train -t; lun-convert x"),
        ("/usr/bin/python", "lun-train.exe", "lun-train -t; lun-convert x"),
        ("pytest", "/usr/bin/pytest", "python main.py -t; python -m lun.convert x"),
    ],
)
def test_commands_name_the_program_as_it_was_started(started, script, line, monkeypatch, tmp_path):
    for name in ("lun-train", "lun-convert"):
        (tmp_path / name).touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    script = script.replace("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "orig_argv", [started, script])
    monkeypatch.setattr(sys, "argv", [script])
    said = as_started("python main.py -t; python -m lun.convert x")
    assert said == as_started(said) == line
