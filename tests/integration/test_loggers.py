"""Runs tell the loggers of docs/loggers.md their settings, numbers and samples, with the packages themselves.

Where the page says so, a resumed run goes on as the same run there.

In an environment of its own, since what these packages require may contradict what this program does.
"""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.pages import ROOT
from support.runs import TINY, make_pictures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # packages are fetched

PACKAGES = ("wandb", "trackio", "mlflow")
LAYER = """
lightning:
  callbacks:
    image_logger: {target: lun.callbacks.ImageLogger, params: {prompts: [a cat], log_images_kwargs: {ddim_steps: 1}}}
  trainer: {max_steps: 2, log_every_n_steps: 1}
"""
READ = """
import json, sys
from pathlib import Path
def mlflow():
    from mlflow.tracking import MlflowClient
    client = MlflowClient("sqlite:///logs/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("lun").experiment_id])
    pictures = [one.path for one in client.list_artifacts(run.info.run_id, "images")]
    return [run.info.run_name], dict(run.data.params), sorted(run.data.metrics), len(pictures)
def trackio():
    import os, sqlite3
    db = sqlite3.connect("trackio/lun.db")
    rows = [json.loads(row[0]) for row in db.execute("select metrics from metrics")]
    names = sorted({row[0] for row in db.execute("select run_name from metrics")})
    config = json.loads(next(db.execute("select config from configs"))[0])
    pictures = list(Path("trackio/media").rglob("*.png"))
    return names, config, sorted({key for row in rows for key in row}), len(pictures)
def wandb():
    folders = {one.resolve() for one in Path("logs").glob("*/wandb/offline-run-*")}
    records = [record for folder in folders for record in folder.glob("*.wandb")]
    told = "".join(record.read_bytes().decode("latin-1") for record in records)  # with their texts as they are
    known = ["train/loss", "train/loss_simple", "base_learning_rate"]
    found = [one for one in known if one in told]
    pictures = [picture for folder in folders for picture in folder.rglob("sheet*.png")]
    return sorted({record.stem.removeprefix("run-") for record in records}), found, found, len(pictures)
print("told", json.dumps(globals()[sys.argv[1]]()))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has these packages beside all of this one's; skipped where they cannot be fetched."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    (own,) = place.glob("lib/*/site-packages")
    (own / "this.pth").write_text(sysconfig.get_path("purelib") + "\n")
    fetched = subprocess.run([place / "bin" / "pip", "install", *PACKAGES], capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"cannot be installed: {fetched.stderr.strip().splitlines()[-1]}")
    return place / "bin" / "python"


@pytest.mark.parametrize(("package", "resumed"), [("mlflow", False), ("trackio", True), ("wandb", True)])
def test_settings_numbers_and_samples_arrive(package: str, resumed: bool, python: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/loggers.md").read_text("utf-8"), flags=re.DOTALL)
    (tmp_path / "logger.yaml").write_text(next(block for block in blocks if f"    {package}:" in block))
    (tmp_path / "layer.yaml").write_text(LAYER)
    data = make_pictures(tmp_path / "data", 4)
    base = ["--base", str(TINY), "layer.yaml", "logger.yaml", "--data_root", str(data)]
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    environment |= {"TRACKIO_DIR": str(tmp_path / "trackio"), "LUN_CACHE": str(tmp_path / "cache"), "LUN_THREADS": "1"}
    words = [str(python), str(ROOT / "main.py"), *base, "-n", "tried", "-t"]
    again = [*words[:2], "-r", "--max_steps", "3", "-t"]
    for line in (words, again) if resumed else (words,):
        trained = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert trained.returncode == 0, trained.stderr[-3000:]
    read = subprocess.run([python, "-c", READ, package], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr[-3000:]
    (line,) = (one for one in read.stdout.splitlines() if one.startswith("told "))
    names, settings, metrics, pictures = json.loads(line.removeprefix("told "))
    assert len(names) == 1 and names[0].endswith("tried")
    assert "base_learning_rate" in json.dumps(settings)
    assert {"train/loss", "train/loss_simple"} <= set(metrics)
    assert pictures > 0
