"""Each way in which torch and the hardware of a machine may not fit."""

import itertools
from pathlib import Path

import pytest

from ldm import missing_packages
from lun.doctor.finding import Finding
from lun.doctor.hardware import Gpu, Machine, Torch, examine_torch, serves

CPU = Torch("2.13.0+cpu", "cpu")
CARD = Gpu("Some RTX", "sm_89", 24.0)
RADEON = Gpu("Some Radeon", "gfx1031", 12.0)
CUDA = Torch("2.13.0", "cuda", "13.0", (CARD,), ("sm_75", "sm_80", "sm_86", "compute_120"))
ROCM = Torch("2.13.0+rocm7.2", "rocm", "7.2.1", (), ("gfx1030", "gfx1100"))
NVIDIA = Machine(nvidia_driver="580.95.05")
AMD = Machine(kfd="open")


def only(torch: Torch, machine: Machine) -> Finding:
    (finding,) = examine_torch(torch, machine)
    return finding


def without_gpus(torch: Torch) -> Torch:
    return Torch(torch.version, torch.kind, torch.toolkit)


def test_a_cpu_build_on_a_machine_without_a_gpu_is_well() -> None:
    assert only(CPU, Machine()).level == "OK"


def test_an_apple_gpu_is_named() -> None:
    apple = only(Torch("2.13.0", mps=True), Machine())
    assert apple.level == "WARN" and "Apple GPU (MPS)" in apple.detail and "no float64" in apple.detail


def test_a_build_with_its_gpu_is_well_and_the_gpu_gets_a_line() -> None:
    build, gpu = examine_torch(CUDA, NVIDIA)
    assert (build.level, build.detail) == ("OK", "2.13.0, built for CUDA 13.0")
    assert (gpu.level, gpu.detail) == ("OK", "Some RTX, 24.0 GiB, sm_89")


def test_a_torch_that_cannot_be_imported_fails_with_its_words() -> None:
    finding = only(Torch(error="libcudart.so.13: cannot open shared object file"), NVIDIA)
    assert finding.level == "FAIL" and "libcudart.so.13" in finding.detail and "--reinstall-torch" in finding.fix


@pytest.mark.parametrize(("machine", "kind"), [(NVIDIA, "cuda"), (AMD, "rocm"), (Machine(kfd="denied"), "rocm")])
def test_a_cpu_build_beside_a_gpu_fails_and_names_the_right_build(machine: Machine, kind: str) -> None:
    finding = only(CPU, machine)
    assert finding.level == "FAIL" and finding.fix.startswith(f"LUN_TORCH={kind} ")


@pytest.mark.parametrize(("torch", "machine", "kind"), [(CUDA, AMD, "rocm"), (ROCM, NVIDIA, "cuda")])
def test_a_build_for_the_other_vendor_fails(torch: Torch, machine: Machine, kind: str) -> None:
    finding = only(without_gpus(torch), machine)
    assert finding.level == "FAIL" and finding.fix.startswith(f"LUN_TORCH={kind} ")


@pytest.mark.parametrize("torch", [CUDA, ROCM])
def test_a_gpu_build_without_any_gpu_is_a_warning(torch: Torch) -> None:
    finding = only(without_gpus(torch), Machine())
    assert finding.level == "WARN" and "trains on the CPU" in finding.detail


def test_a_driver_that_is_too_old_for_the_build_is_told_with_the_one_it_needs() -> None:
    finding = only(without_gpus(CUDA), Machine(nvidia_driver="535.183.01"))
    assert finding.level == "FAIL" and "the driver is 535.183.01, and this CUDA needs 580.65 or newer" in finding.detail


def test_a_driver_that_is_new_enough_is_not_blamed() -> None:
    finding = only(without_gpus(CUDA), NVIDIA)
    assert finding.level == "FAIL" and "needs" not in finding.detail and "CUDA_VISIBLE_DEVICES" in finding.fix


def test_a_compute_device_that_may_not_be_used_names_the_groups() -> None:
    finding = only(ROCM, Machine(kfd="denied"))
    assert finding.level == "FAIL" and "usermod -aG video,render" in finding.fix


def test_an_open_compute_device_without_a_gpu_fails() -> None:
    assert only(ROCM, AMD).level == "FAIL"


def test_a_gpu_that_the_build_has_no_code_for_fails() -> None:
    _, gpu = examine_torch(Torch(ROCM.version, "rocm", ROCM.toolkit, (RADEON,), ROCM.architectures), AMD)
    assert gpu.level == "FAIL" and "only for gfx1030, gfx1100" in gpu.detail and "HSA_OVERRIDE" in gpu.fix


@pytest.mark.parametrize(
    ("code", "architecture", "runs"),
    [
        ("sm_86", "sm_89", True),
        ("sm_90", "sm_89", False),
        ("sm_75", "sm_89", False),
        ("compute_75", "sm_89", True),
        ("compute_120", "sm_100", False),
        ("sm_120", "sm_120", True),
        ("sm_90a", "sm_90", True),
        ("gfx1030", "gfx1030", True),
        ("gfx1030", "gfx1031", False),
    ],
)
def test_code_runs_where_the_vendors_say_that_it_does(code: str, architecture: str, runs: bool) -> None:
    assert serves(code, architecture) == runs


def test_an_installed_wheel_is_never_told_to_start_a_script_that_it_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(missing_packages, "PROJECT", tmp_path)
    broken, unserved = Torch(error="cannot"), Torch("2.13.0", "cuda", "13.0", (CARD,), ("sm_100",))
    torches = [broken, unserved, CPU, CUDA, ROCM, without_gpus(CUDA)]
    machines = [Machine(), NVIDIA, AMD, Machine(kfd="denied")]
    fixes = [found.fix for pair in itertools.product(torches, machines) for found in examine_torch(*pair)]
    assert any("pip install torch" in fix for fix in fixes) and [fix for fix in fixes if "scripts/" in fix] == []
