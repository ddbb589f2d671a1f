"""The settings that the measurement of strategies starts runs with are ones that the program takes."""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from support.runs import TINY, make_pictures

from lun.trainer import run


def script(file: Path) -> Any:
    """As a module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench(repo_root: Path) -> Any:
    return script(repo_root / "tests/gpu/bench_strategies.py")


def test_every_case_passes_the_check(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    given = argparse.Namespace(base=[str(TINY)], accelerator="gpu", devices=1, batch=2, steps=4)
    words = bench.words(make_pictures(tmp_path / "data", 2), tmp_path / "logs", given)
    codes = {name: run([*words, *case, "--check"]) for name, case in bench.CASES.items()}
    assert set(codes.values()) == {0}, codes


def test_every_case_of_the_throughput_passes_the_check(repo_root: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repo_root / "tests/bench"))
        throughput = script(repo_root / "tests/gpu/bench_throughput.py")
    data = throughput.pictures(tmp_path / "data", 16, 2)
    lines = {name: throughput.words(name, data, tmp_path / "logs", 8) for name in throughput.CASES}
    codes = {name: run([*words, "--check"]) for name, words in lines.items()}
    assert set(codes.values()) == {0}, codes


def test_a_run_that_failed_is_told_by_the_line_that_names_its_error(bench: Any) -> None:
    assert bench.reason("note\nerror[TRN01]: no memory\n  fix: less | more\n") == "error[TRN01]: no memory"
    assert bench.reason("Killed\n") == "Killed" and bench.reason("") == ""
