"""What is seen of a machine."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lun.doctor import look
from lun.doctor.hardware import Gpu, Torch


def test_a_compute_device_that_is_not_there_is_missing(tmp_path: Path) -> None:
    assert look.kfd(tmp_path / "kfd") == "missing"


def test_a_compute_device_that_is_there_is_open(tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    assert look.kfd(tmp_path / "kfd") == "open"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every device")
def test_a_compute_device_without_rights_is_denied(tmp_path: Path) -> None:
    (tmp_path / "kfd").touch(mode=0)
    assert look.kfd(tmp_path / "kfd") == "denied"


@pytest.mark.parametrize(("script", "version"), [("echo 580.95.05; echo 580.95.05", "580.95.05"), ("exit 9", None)])
def test_the_driver_is_what_nvidia_smi_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, version: str | None
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert look.nvidia_driver() == version


def test_a_broken_torchvision_is_seen_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    (tmp_path / "torchvision-0.28.0.dist-info").mkdir()
    (tmp_path / "torchvision-0.28.0.dist-info/METADATA").write_text("Name: torchvision\nVersion: 0.28.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert look.torchvision() == ("0.28.0", "operator torchvision::nms does not exist")
    assert "torchvision" not in sys.modules


def test_a_torch_that_cannot_be_imported_is_seen_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr(look, "import_module", broken)
    assert look.torch().error == "libcudart.so.13: cannot open shared object file"


def torch_with(gpus: list[SimpleNamespace], *, cuda: str | None = None, hip: str | None = None) -> SimpleNamespace:
    """As much of torch as is looked at."""
    device = SimpleNamespace(
        device_count=lambda: len(gpus),
        get_device_properties=gpus.__getitem__,
        get_arch_list=lambda: ["sm_90", "gfx1100"],
    )
    mps = SimpleNamespace(is_available=lambda: False)
    version = SimpleNamespace(cuda=cuda, hip=hip)
    return SimpleNamespace(__version__="2.13.0", version=version, cuda=device, backends=SimpleNamespace(mps=mps))


def test_an_nvidia_gpu_is_seen_with_its_compute_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="H200", major=9, minor=0, total_memory=139 * 2**30)
    monkeypatch.setattr(look, "import_module", lambda name: torch_with([gpu], cuda="13.0"))
    assert look.torch() == Torch("2.13.0", "cuda", "13.0", (Gpu("H200", "sm_90", 139.0),), ("sm_90", "gfx1100"))


def test_an_amd_gpu_is_seen_by_its_architecture_without_its_features(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="RX 7900 XTX", gcnArchName="gfx1100:sramecc-:xnack-", total_memory=24 * 2**30)
    monkeypatch.setattr(look, "import_module", lambda name: torch_with([gpu], hip="7.2.1"))
    seen = look.torch()
    assert (seen.kind, seen.toolkit, seen.gpus) == ("rocm", "7.2.1", (Gpu("RX 7900 XTX", "gfx1100", 24.0),))


def test_a_tokenizer_that_lost_its_vocabulary_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from ldm.modules.encoders import tokenizer

    class Empty:
        def __len__(self) -> int:
            return 2

        def __call__(self, text: str) -> "Empty":
            self.input_ids = [0, 1]
            return self

    monkeypatch.setattr(tokenizer, "clip_tokenizer", lambda name, length: Empty())
    assert look.vocabulary() == "it has 2 tokens instead of 49408"


def test_the_program_asks_for_what_pyproject_says_and_is_pinned() -> None:
    assert {"torch", "lightning"} <= {need.name for need in look.required()} <= {"torch", *look.pins()}


def test_a_folder_that_is_not_there_yet_counts_as_the_one_above(tmp_path: Path) -> None:
    assert look.writable(tmp_path / "a/b") and look.free(tmp_path / "a/b") > 0
    assert look.shared_memory(tmp_path / "shm") is None


@pytest.mark.parametrize("kernel", [None, object()])
def test_a_kernel_that_cannot_be_made_is_seen(kernel: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.ema.compiled.kernel", lambda: kernel)
    assert look.compiled() is (kernel is not None)
