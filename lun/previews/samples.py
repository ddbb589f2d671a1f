"""What was sampled so far, in `samples.jsonl` beside the sheets: a resumed run goes on with the same strip."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from PIL import Image

from ldm.plain import parse_json, read_plain_text, record_of
from lun.previews.grid import Layout


@dataclass(frozen=True)
class Sample:
    """One sample: which step, prompt and seed; which weights ("raw" or "ema"); where on which sheet it is.

    box    left, top, right, bottom in pixels; `scale` says by how much the sheet enlarged it
    """

    step: int
    prompt: str
    seed: int
    weights: str
    file: str
    box: tuple[int, int, int, int]
    scale: int


class SampleRecord:
    """Reads and appends `samples.jsonl` of one folder, and cuts single samples out of its sheets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "samples.jsonl"

    def add(
        self,
        step: int,
        prompts: Sequence[str],
        seeds: Sequence[int],
        weights: str,
        file: str,
        plan: Layout,
        sizes: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Append one line for each tile of a sheet that was just written.

        sizes  (width, height) of each picture, where not all fill their tiles
        """
        torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        lines = ["\n"] if torn else []
        for index, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            box = plan.box(index, sizes[index] if sizes else None)
            sample = Sample(step, prompt, seed, weights, file, box, plan.scale)
            lines.append(json.dumps(asdict(sample), ensure_ascii=False) + "\n")
        with self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(lines)

    def read(self) -> list[Sample]:
        """What is known, oldest first; a step below its predecessor's is a resume, and what it undid is left out."""
        known: list[Sample] = []
        for line in self._lines():
            try:
                fields = parse_json(line)
                sample = record_of(Sample, {**fields, "box": tuple(fields["box"])})
                left, top, right, bottom = sample.box
                if not (0 <= left < right and 0 <= top < bottom and sample.scale > 0):
                    continue  # no tile of any sheet
            except (ValueError, TypeError, KeyError):  # a line torn by a crash
                continue
            if known and sample.step < known[-1].step:
                known = [k for k in known if k.step < sample.step]
            known.append(sample)
        return known

    def _lines(self) -> list[str]:
        try:
            return read_plain_text(self.path).splitlines()
        except (OSError, ValueError):  # not there yet, or nothing that this program wrote
            return []

    def tiles(
        self, samples: Sequence[Sample], step: int, weights: str, wanted: Sequence[tuple[str, int]]
    ) -> list[Image.Image | None]:
        """The samples of one step as single pictures of their own size, None where one is not to be had.

        wanted  (prompt, seed) of each column
        """
        matches = {(s.prompt, s.seed): s for s in samples if s.step == step and s.weights == weights}
        sheets: dict[str, Image.Image | None] = {}
        cut: list[Image.Image | None] = []
        for key in wanted:
            sample = matches.get(key)
            if sample and sample.file not in sheets:
                sheets[sample.file] = self._sheet(sample.file)
            sheet = sheets[sample.file] if sample else None
            cut.append(_cut(sheet, sample) if sheet and sample else None)
        return cut

    def _sheet(self, file: str) -> Image.Image | None:
        try:
            with Image.open(self.folder / file) as sheet:
                return sheet.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None  # gone, half written or damaged: the strip goes on without it


def _cut(sheet: Image.Image, sample: Sample) -> Image.Image | None:
    if sample.box[2] > sheet.width or sample.box[3] > sheet.height:
        return None  # of another sheet than the one that has its name now
    tile = sheet.crop(sample.box)
    size = max(1, tile.width // sample.scale), max(1, tile.height // sample.scale)
    return tile.resize(size, Image.Resampling.NEAREST)
