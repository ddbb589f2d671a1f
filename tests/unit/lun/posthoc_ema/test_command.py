"""`python -m lun.posthoc_ema` on snapshots of a run whose trajectory is known."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import PowerDecay
from ldm.files.digest import sha256
from ldm.files.ema_snapshot import About, TensorFile, write_snapshot
from ldm.files.write import write_safetensors
from lun.posthoc_ema.command import run

STEPS, COUNT = 320, 16


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with 16 snapshots of widths 0.05 and 0.10, and averages of 0.07 and 0.10 made while it trained."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(200))
    base = {"model.w": parameter.detach().clone(), "frozen": torch.full((2,), 3.0), "count": torch.tensor(7)}
    write_safetensors(folder / "ema-snapshots/base.safetensors", base)
    ema = LitEma({"model.w": parameter}, profile=PowerDecay(0.07), widths=(0.05, 0.10), update_every=1)
    digest = sha256(folder / "ema-snapshots/base.safetensors")
    for step in range(1, STEPS + 1):
        parameter.data += 0.001 * torch.randn(200)
        ema.update(step)
        if step % (STEPS // COUNT) == 0:
            for name, track in ema.tracks().items():
                if name != "ema":
                    about = About(name, float(name[6:]), step, 0, 1, digest)
                    path = folder / f"ema-snapshots/{name}-{step:08d}.safetensors"
                    assert track.shadow is not None
                    write_snapshot(path, track.shadow.views, base, about)
    for name, track in (("0.07", ema.tracks()["ema"]), ("0.10", ema.tracks()["power-0.1"])):
        assert track.shadow is not None
        write_safetensors(folder / f"direct-{name}.safetensors", dict(track.shadow.views))
    return folder


def share_apart(known: Path, ours: Path, direct: str) -> float:
    base = TensorFile(known / "ema-snapshots/base.safetensors")["model.w"]
    wanted, found = (TensorFile(path)["model.w"] for path in (known / f"direct-{direct}.safetensors", ours))
    return float((found - wanted).norm() / (wanted - base).norm())


@pytest.mark.parametrize(("width", "largest"), [("0.10", 5e-4), ("0.07", 0.005)])
def test_a_reconstructed_average_is_the_one_tracked_while_training(
    known: Path, tmp_path: Path, width: str, largest: float
) -> None:
    out = tmp_path / "out.safetensors"
    assert run(["reconstruct", str(known), "--width", width, "-o", str(out)]) == 0
    assert share_apart(known, out, width) < largest
    with TensorFile(out) as file:
        assert sorted(file) == ["count", "frozen", "model.w"]
        assert file["count"].item() == 7 and file["frozen"].tolist() == [3.0, 3.0]
    against = ["--against", str(known / f"direct-{width}.safetensors")]
    base = ["--base", str(known / "ema-snapshots/base.safetensors")]
    assert run(["verify", str(out), *against, *base]) == 0
    assert run(["verify", str(out), *against, *base, "--tolerance", "0"]) == 4


def test_the_whole_base_weight_is_the_base(known: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert run(["reconstruct", str(known), "--width", "0.1", "--base-weight", "1", "-o", str(out)]) == 0
    base = TensorFile(known / "ema-snapshots/base.safetensors")
    assert torch.equal(TensorFile(out)["model.w"], base["model.w"])


def test_several_widths_at_an_earlier_step_and_in_16_bit(known: Path, tmp_path: Path) -> None:
    out = tmp_path / "ema-{width}.safetensors"
    words = ["reconstruct", str(known), "--width", "0.05,0.08", "--step", "160", "--dtype", "bf16", "-o", str(out)]
    assert run(words) == 0
    files = [TensorFile(path) for path in sorted(tmp_path.iterdir())]
    assert [file.path.name for file in files] == ["ema-0.05.safetensors", "ema-0.08.safetensors"]
    assert all(file["model.w"].dtype == torch.bfloat16 and file.metadata["step"] == "160" for file in files)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(words)
    return code, capsys.readouterr().err


def test_a_width_out_of_reach_needs_force(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reconstruct", str(known), "--width", "0.01", "-o", str(tmp_path / "out.safetensors")]
    code, told = refused(words, capsys)
    assert code == 2 and "cannot make the width 0.01" in told and not list(tmp_path.iterdir())
    assert run([*words, "--force"]) == 0


def test_a_wrong_base_is_refused(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "ema-snapshots"
    folder.mkdir()
    for file in (known / "ema-snapshots").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    data = bytearray((folder / "base.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "base.safetensors").write_bytes(bytes(data))
    words = ["reconstruct", str(tmp_path), "--width", "0.1", "-o", str(tmp_path / "o.safetensors")]
    code, told = refused(words, capsys)
    assert code == 4 and "error[MOD03]" in told and "is not the file that the snapshots are differences to" in told
    (folder / "base.safetensors").unlink()
    assert refused(words, capsys)[0] == 4
    assert not (tmp_path / "o.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["reconstruct", "RUN", "--width", "0.05"], 2),
        (["reconstruct", "RUN", "--width", "0.05,0.06", "-o", "one.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "0.9", "-o", "one.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "x", "-o", "one.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "0.1", "--base-weight", "2", "-o", "one.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "0.1", "--step", "3", "-o", "one.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "0.1", "-o", "RUN/direct-0.10.safetensors"], 2),
        (["reconstruct", "RUN", "--width", "0.1", "-o", "one.ckpt"], 2),
        (["inspect", "RUN/nothing"], 4),
        (["plan", "--count", "1"], 2),
        (["conjure"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_one_clear_fault(
    known: Path, words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = refused([word.replace("RUN", str(known)) for word in words], capsys)
    assert found == code
    assert told.count("error[") == 1


def test_inspect_and_plan_say_what_can_be_reached(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(known)]) == 0
    told = capsys.readouterr().out
    assert "power-0.05: 16 snapshots" in told and "at step 320" in told
    assert run(["plan", "--targets", "0.2", "--png", str(tmp_path / "p.png")]) == 0
    told = capsys.readouterr().out
    assert "58.4 GB" in told and "2.324 %" in told
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_snapshots_of_an_abandoned_attempt_are_left_out(known: Path, tmp_path: Path) -> None:
    from lun.posthoc_ema.library import Library

    base = {"model.w": torch.zeros(2)}
    for attempt, began, steps in ((1, 0, (10, 20, 30, 40)), (2, 20, (30,)), (3, 25, (27,))):
        for step in steps:
            about = About("power-0.1", 0.1, step, 0, 1, "", attempt, began)
            tail = f"-attempt{attempt}" if attempt > 1 else ""
            write_snapshot(tmp_path / f"power-0.1-{step:08d}{tail}.safetensors", base, base, about)
    found = [(one.about.last_update, one.about.attempt) for one in Library.open(str(tmp_path)).snapshots]
    assert found == [(10, 1), (20, 1), (27, 3)]


AVERAGES = "last: {target: ldm.ema.weightings.LastSteps, params: {steps: 200}}\nhalf: {target: mine.ramp}\n"
MINE = "import numpy as np\n\n\ndef ramp():\n    return lambda s, time: np.maximum(s - 0.5 * time, 0)\n"


def test_averages_of_other_shapes_are_named_in_yaml(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "averages.yaml").write_text(AVERAGES)
    (tmp_path / "mine.py").write_text(MINE)
    words = ["reconstruct", str(known), "--averages", "averages.yaml", "-o", "ema-{width}.safetensors", "--force"]
    assert run(words) == 2 and "cannot load target mine.ramp" in capsys.readouterr().err
    assert run([*words, "--width", "0.08", "--allow", "mine"]) == 0, capsys.readouterr().err
    made = {path.name: TensorFile(path) for path in sorted(tmp_path.glob("*.safetensors"))}
    assert list(made) == ["ema-0.08.safetensors", "ema-half.safetensors", "ema-last.safetensors"]
    assert made["ema-last.safetensors"].metadata["ema_weighting"] == "last"
    assert not torch.equal(made["ema-last.safetensors"]["model.w"], made["ema-half.safetensors"]["model.w"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it names none"),
        ("a: [", "is no YAML"),
        ("0.08: {target: ldm.ema.weightings.LastSteps, params: {steps: 1}}", "0.08 is none"),
        ("a: 3", "'a' is none"),
        ("a/b: {target: ldm.ema.weightings.HalfLifeSteps, params: {steps: 1}}", "'a/b' is none"),
        ("a: {target: ldm.ema.weightings.LastSteps, params: {steps: 0}}", "steps of LastSteps cannot be 0"),
        ("a: {target: ldm.ema.weightings.LastSteps, params: {steps: 1.0e-9}}", "a is no weighting of steps"),
        ("a: {target: ldm.ema.profiles.PowerDecay, params: {sigma_rel: 0.1}}", "a is no weighting of steps"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_names_no_averages_is_one_message(
    known: Path, tmp_path: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "averages.yaml").write_text(text)
    assert run(["sweep", str(known), "--averages", str(tmp_path / "averages.yaml")]) == 2
    assert said in capsys.readouterr().err


def test_without_any_average_nothing_is_done(known: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", str(known)]) == 2
    assert "no average is asked for" in capsys.readouterr().err
