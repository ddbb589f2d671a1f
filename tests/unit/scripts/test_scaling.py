"""The tables of `lun/strategies/README.md` are what scripts/scaling.py prints, and its numbers are arithmetic."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def scaling(repo_root: Path) -> ModuleType:
    import sys

    spec = importlib.util.spec_from_file_location("scaling", repo_root / "scripts" / "scaling.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_readme_holds_what_the_script_prints(scaling: ModuleType, repo_root: Path) -> None:
    assert scaling.report() in (repo_root / "lun" / "strategies" / "README.md").read_text()


def test_a_ring_moves_twice_the_gradients_and_hides_what_the_backward_pass_can(scaling: ModuleType) -> None:
    """SDXL on 64 GPUs with one card a node: 2 x 63/64 x 10.27 GB at 50 GB/s are 404 ms; 146 of a 250 ms step hide."""
    ddp = scaling.SETTINGS[0]
    seconds = ddp.traffic(2567e6, 64, 50e9)
    assert seconds == pytest.approx(2 * 63 / 64 * 4 * 2567e6 / 50e9)
    assert ddp.exposed(seconds, 0.25) == pytest.approx(seconds - 0.25 * 2 / 3 * 7 / 8)
    assert ddp.exposed(seconds, 10.0) == pytest.approx(seconds / 16)


def test_sharding_within_nodes_sends_an_eighth_between_them(scaling: ModuleType) -> None:
    within, between = 8 * 7 / 8 / 450e9, 2 * 4 / 8 * 7 / 8 / 50e9
    assert scaling.hybrid_traffic(1.0, 64) == pytest.approx(within + between)
