"""What the card of a run's weights says, and that it says so of whatever is left of the run's directory."""

import json
from pathlib import Path

import pytest
import yaml
from PIL import Image

from ldm.convert.model_card import FILL_IN, says_no_licence
from lun.checkpoints.run_card import LARGEST_PICTURE, run_card

SETTINGS = {
    "model": {
        "base_learning_rate": 1e-5,
        "params": {
            "ckpt_path": "/home/person/models/base v1.safetensors",
            "cond_stage_config": {"params": {"ckpt_path": "org/base@main"}},
            "optimizer_config": {"target": "torch.optim.AdamW", "params": {"weight_decay": 0.01, "betas": [0.9, 0.99]}},
        },
    },
    "data": {"params": {"train": {"params": {"data_root": "/home/person/pictures"}}}},
    "lightning": {"trainer": {"precision": "bf16-mixed"}},
}
METADATA = {
    "lun.run": "a <b> run",
    "lun.weights": "ema",
    "ss_steps": "4",
    "ss_tag_frequency": json.dumps({"one": {"cat": 2, "a|b": 1}, "two": {"cat": 3}}),
    "modelspec.architecture": "stable-diffusion-v1",
    "modelspec.license": "Some Licence",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    samples = tmp_path / "images/samples"
    samples.mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/resolved.yaml").write_text(yaml.safe_dump(SETTINGS))
    (tmp_path / "run.json").write_text(json.dumps({"seed": 7, "data": {"n": 1234, "global_batch": 8}}))
    lines = []
    for step in (2, 4, 6):
        for weights in ("raw", "ema"):
            file = f"{weights}-{step}.png"
            Image.new("RGB", (8, 8), (step, 0, 0)).save(samples / file)
            line = {"step": step, "prompt": f"a cat at {step}", "seed": 1, "weights": weights, "file": file}
            lines.append(json.dumps({**line, "box": [0, 0, 8, 8], "scale": 1}))
    (samples / "samples.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_it_tells_base_data_settings_and_samples(run: Path) -> None:
    card = run_card(run, METADATA)
    front = yaml.safe_load(card.text.split("---")[1])
    assert front["base_model"] == "org/base" and "license" not in front and "Some Licence" in card.text
    for said in (
        "# a \\<b\\> run",
        "base v1.safetensors, org/base@main",
        "1,234 examples. Most frequent: cat (5), a\\|b (1).",
        "| base learning rate | 1e-05 |",
        "| optimizer_config | torch.optim.AdamW weight_decay=0.01 |",
        "| images a step | 8 |",
        "- a cat at 4 (seed 1, step 4)",
        f"**{FILL_IN}**",
    ):
        assert said in card.text, said
    assert card.picture == (run / "images/samples/ema-4.png").read_bytes()


def test_its_licence_waits_until_a_person_has_written_one(run: Path) -> None:
    page = run_card(run, METADATA).beside(run / "a.safetensors")
    assert says_no_licence(page)
    page.write_text(page.read_text().replace(f"# license: {FILL_IN} an id", "license: openrail++ # an id"))
    assert not says_no_licence(page) and yaml.safe_load(page.read_text().split("---")[1])["license"] == "openrail++"


@pytest.mark.parametrize(
    ("kind", "tags", "draws"),
    [
        ("", [], True),
        ("/lora", ["lora"], True),
        ("/textual-inversion", ["textual_inversion"], True),
        ("/vae", ["vae"], False),
    ],
)
def test_the_hub_is_told_what_kind_of_weights_they_are(run: Path, kind: str, tags: list[str], draws: bool) -> None:
    text = run_card(run, {"modelspec.architecture": f"stable-diffusion-v1{kind}"}).text
    front = yaml.safe_load(text.split("---")[1])
    assert front["tags"] == ["stable-diffusion", *tags] and ("pipeline_tag" in front) is draws


def test_it_tells_no_path_of_the_machine(run: Path) -> None:
    text = run_card(run, METADATA).text
    assert "/home" not in text and "person" not in text and str(run) not in text


@pytest.mark.parametrize("content", [None, "", "{", "[1]", '{"data": 3, "model": []}', "\x00", "model: {params: [1]}"])
@pytest.mark.parametrize("file", ["run.json", "configs/resolved.yaml", "images/samples/samples.jsonl"])
def test_what_is_missing_or_broken_is_left_out(run: Path, file: str, content: str | None) -> None:
    (run / file).unlink()
    if content is not None:
        (run / file).write_text(content)
    card = run_card(run, {**METADATA, "ss_tag_frequency": content or "", "ss_steps": "x"})
    assert card.text.startswith("---\n") and "## Settings" in card.text


def test_a_sheet_that_is_too_large_or_lies_elsewhere_does_not_go_along(run: Path) -> None:
    sheet = run / "images/samples/ema-4.png"
    with sheet.open("ab") as stream:
        stream.truncate(LARGEST_PICTURE + 1)
    assert run_card(run, METADATA).picture is None
    record = run / "images/samples/samples.jsonl"
    (run / "secret.png").write_bytes(b"secret")
    record.write_text(record.read_text().replace("ema-4.png", "../../secret.png"))
    card = run_card(run, METADATA)
    assert card.picture is None and "![samples]" not in card.text
