"""scripts/amd-power.sh on the files that the amdgpu driver shows, here those of a folder."""

import os
import subprocess
from pathlib import Path

import pytest
from support.radeon import POLARIS, RDNA2, RDNA3, Card


@pytest.fixture
def sysroot(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def card(sysroot: Path) -> Card:
    (sysroot / "sys/class/drm/card1-DP-1").mkdir(parents=True)
    return Card(sysroot, 1)


def power(repo_root: Path, sysroot: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "LUN_SYSROOT": str(sysroot)}
    command = ["bash", str(repo_root / "scripts/amd-power.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_profile_and_limit_are_set_and_restored(repo_root: Path, sysroot: Path, card: Card) -> None:
    answer = power(repo_root, sysroot, "--profile", "compute", "--watts", "180")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert card.written == ("manual", "5", "180000000")
    assert power(repo_root, sysroot, "--restore").returncode == 0
    assert card.written == ("auto", "0", "225000000")


def test_a_second_change_does_not_forget_what_was_there_first(repo_root: Path, sysroot: Path, card: Card) -> None:
    power(repo_root, sysroot, "--watts", "180")
    power(repo_root, sysroot, "--watts", "150")
    power(repo_root, sysroot, "--restore")
    assert card.written[2] == "225000000"
    answer = power(repo_root, sysroot, "--restore")
    assert answer.returncode == 2 and "error[RES01]: nothing to restore for card1" in answer.stderr


def test_a_limit_alone_leaves_the_profile_to_the_driver(repo_root: Path, sysroot: Path, card: Card) -> None:
    power(repo_root, sysroot, "--watts", "180")
    assert card.written == ("auto", RDNA2.splitlines()[0], "180000000")


@pytest.mark.parametrize("table", [RDNA2, RDNA3, POLARIS], ids=["RDNA2", "RDNA3", "Polaris"])
def test_a_profile_is_found_by_its_name_in_every_drivers_table(repo_root: Path, sysroot: Path, table: str) -> None:
    Card(sysroot, 0, table)
    assert power(repo_root, sysroot, "--profile", "COMPUTE", "--print").stdout.splitlines() == [
        f"echo manual >{sysroot}/sys/class/drm/card0/device/power_dpm_force_performance_level",
        f"echo 5 >{sysroot}/sys/class/drm/card0/device/pp_power_profile_mode",
    ]


def test_printing_writes_nothing(repo_root: Path, sysroot: Path, card: Card) -> None:
    before = card.written
    answer = power(repo_root, sysroot, "--profile", "COMPUTE", "--watts", "180", "--print")
    assert answer.stdout.splitlines()[0] == f"echo 180000000 >{card.monitor}/power1_cap"
    assert card.written == before and not (sysroot / "run").exists()


def test_without_arguments_it_shows_what_is_set(repo_root: Path, sysroot: Path) -> None:
    Card(sysroot, 0, POLARIS)
    assert power(repo_root, sysroot).stdout == (
        "card0  225 W of 100 to 250  profile 3D_FULL_SCREEN of BOOTUP_DEFAULT 3D_FULL_SCREEN COMPUTE\n"
    )


def test_all_cards_are_set_unless_one_is_named(repo_root: Path, sysroot: Path, card: Card) -> None:
    other = Card(sysroot, 12)
    power(repo_root, sysroot, "--watts", "150", "--gpu", "1")
    assert (card.written[2], other.written[2]) == ("150000000", "225000000")
    power(repo_root, sysroot, "--watts", "160")
    assert (card.written[2], other.written[2]) == ("160000000", "160000000")


def test_cards_of_others_and_without_settings_are_left_alone(repo_root: Path, sysroot: Path, card: Card) -> None:
    other = Card(sysroot, 0, vendor="0x10de")
    integrated = Card(sysroot, 2)
    (integrated.monitor / "power1_cap").unlink()
    power(repo_root, sysroot, "--watts", "150")
    assert (card.written[2], other.written[2]) == ("150000000", "225000000")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--watts", "300"], 2, "takes 100 to 250 W"),
        (["--watts", "99"], 2, "takes 100 to 250 W"),
        (["--watts", "12.5"], 2, "takes a whole number"),
        (["--profile", "FASTEST"], 2, "it has BOOTUP_DEFAULT 3D_FULL_SCREEN COMPUTE"),
        (["--restore", "--watts", "100"], 2, "error[CLI02]"),
        (["--gpu"], 2, "--gpu needs a value"),
        (["--gpu", "7", "--watts", "150"], 5, "no AMD GPU with power settings found as card7"),
        (["--fast"], 2, "unknown argument --fast"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(
    repo_root: Path, sysroot: Path, card: Card, arguments: list[str], code: int, words: str
) -> None:
    before = card.written
    answer = power(repo_root, sysroot, *arguments)
    assert (answer.returncode, card.written) == (code, before)
    assert words in answer.stderr and answer.stderr.count("error[") == 1


def test_a_second_card_that_does_not_fit_keeps_the_first_as_it_was(repo_root: Path, sysroot: Path, card: Card) -> None:
    (Card(sysroot, 2).monitor / "power1_cap_max").write_text("120000000\n")
    assert power(repo_root, sysroot, "--watts", "180").returncode == 2
    assert card.written[2] == "225000000"


def test_a_file_that_may_not_be_written_asks_for_root(repo_root: Path, sysroot: Path, card: Card) -> None:
    (card.monitor / "power1_cap").unlink()
    (card.monitor / "power1_cap").mkdir()  # root may write every file, but no folder
    answer = power(repo_root, sysroot, "--watts", "180")
    assert answer.returncode == 8 and "error[DSK01]" in answer.stderr and "sudo bash" in answer.stderr


def test_a_machine_without_an_amd_gpu_is_told_so(repo_root: Path, sysroot: Path) -> None:
    answer = power(repo_root, sysroot)
    assert answer.returncode == 5 and "error[DEV01]: no AMD GPU" in answer.stderr
