"""A run directory as a training leaves it, written by hand, and what a browser would see of its page."""

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from PIL import Image

STEPS = (0, 50, 100)
PROMPTS = ("a fox", "a frog")
RECORD = {
    "status": "done",
    "started": "2026-11-20T11:13:02",
    "argv": ["main.py", "-b", "emoji", "-t"],
    "seed": 7,
    "attempt": 1,
    "ended": "2026-11-20T11:20:00",
    "exit_code": 0,
    "steps": 100,
    "total_steps": 200,
    "data": {"n": 168, "global_batch": 32},
    "versions": {"torch": "2.13.0"},
}
SETTINGS = """
model: {base_learning_rate: 0.001}
data: {params: {train: {target: lun.data.local.Local, params: {data_root: /pictures}}}}
"""
TRAINS = {
    "networks": [{"name": "UNet", "numbers": 2_000_000, "trained": 2_000_000}],
    "groups": [{"rules": "*", "learning_rate": 0.001, "settings": {}, "numbers": 2_000_000, "names": ["a"]}],
}


def make_run(path: Path, samples: bool = True, **record: Any) -> Path:
    """A run of 100 of 200 steps with two prompts, sampled thrice with raw and averaged weights."""
    for folder in ("configs", "checkpoints", "images/samples"):
        (path / folder).mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(RECORD | record))
    (path / "configs" / "resolved.yaml").write_text(SETTINGS)
    (path / "trains.json").write_text(json.dumps(TRAINS))
    (path / "console.log").write_text("2026-11-20 11:13:02,001 WARNING warning[DAT06]: two\n  lines\n")
    (path / "checkpoints" / "last.ckpt").write_bytes(b"0" * 2000)
    log_metrics(path, {step: {"train/loss": 1 / (1 + step), "perf/step_ms": 20.0} for step in range(0, 101, 10)})
    if samples:
        for step in STEPS:
            for weights in ("raw", "ema"):
                add_samples(path, step, weights)
    return path


def log_metrics(run: Path, lines: Mapping[int, Mapping[str, Any]], began: float = 1.8e9) -> None:
    """Append one line a step, half a second apart."""
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"step": s, "time": began + s / 2, **values}) + "\n" for s, values in lines.items())


def add_samples(run: Path, step: int, weights: str, prompts: tuple[str, ...] = PROMPTS) -> None:
    """One sheet of a colour that tells step and weights, a tile of 8 pixels for each prompt."""
    folder, file = run / "images" / "samples", f"{weights}-{step}.png"
    Image.new("RGB", (8 * len(prompts), 8), (step % 256, 0 if weights == "raw" else 255, 9)).save(folder / file)
    with (folder / "samples.jsonl").open("a") as record:
        for place, prompt in enumerate(prompts):
            row = {"step": step, "prompt": prompt, "seed": 42 + place, "weights": weights, "file": file}
            record.write(json.dumps(row | {"box": [8 * place, 0, 8 * place + 8, 8], "scale": 1}) + "\n")


class Page(HTMLParser):
    """Tags, texts and data of a page as a parser finds them."""

    VOID = {"meta", "img", "input", "br", "link"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = attrs, text + data
        elif data.strip() and not (self.open and self.open[-1] == "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> Any:
        """What its own script reads."""
        return json.loads(next(text for attrs, text in self.scripts if attrs.get("id") == "data"))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]
