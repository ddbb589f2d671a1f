"""What a run says of the weights that it made: its name, config, tags, and a picture that they drew."""

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from ldm.files.digest import sha256
from ldm.plain import read_json
from lun.previews.samples import Sample, SampleRecord

LARGEST_THUMBNAIL = 40_000  # characters of the data URL
SIDE = 256
TAGS = Path("data") / "tag_frequency.json"  # {folder: {tag: count}}


def run_metadata(run: Path, step: int | None, weights: Literal["ema", "raw"]) -> dict[str, str]:
    """Metadata of weights of step `step` of the run in the directory `run`; what the run did not store is left out.

    The keys beginning with `ss_` are kohya's, which model browsers show.
    """
    record = _record(run)
    metadata: dict[str, Any] = {
        "lun.run": run.name,
        "lun.weights": weights,
        "lun.config_sha256": _config_hash(run),
        "ss_output_name": run.name,
        "ss_steps": step,
        "ss_seed": record.get("seed"),
        "ss_num_train_images": _data(record).get("n"),
        "ss_tag_frequency": _tags(run, record),
        "modelspec.thumbnail": thumbnail(run / "images" / "samples", step, weights),
    }
    return {key: str(value) for key, value in metadata.items() if value is not None}


def thumbnail(folder: Path, step: int | None, weights: str) -> str | None:
    """The first picture of the newest samples up to `step` as a data URL of a JPEG; None where there is none."""
    record = SampleRecord(folder)
    known = [sample for sample in record.read() if step is None or sample.step <= step]
    for sample in sorted(known, key=lambda sample: (-sample.step, sample.weights != weights)):
        if picture := _picture(record, known, sample):
            return _data_url(picture)
    return None


def _picture(record: SampleRecord, known: list[Sample], sample: Sample) -> Image.Image | None:
    return record.tiles(known, sample.step, sample.weights, [(sample.prompt, sample.seed)])[0]


def _data_url(picture: Image.Image) -> str:
    """A JPEG of at most 256 pixels a side, as good as fits."""
    picture = picture.convert("RGB")
    picture.thumbnail((SIDE, SIDE))
    url = ""
    for quality in (90, 75, 60, 40, 20, 5):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True)
        url = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
        if len(url) <= LARGEST_THUMBNAIL:
            break
    return url


def _config_hash(run: Path) -> str | None:
    file = run / "configs" / "resolved.yaml"
    return sha256(file) if file.is_file() else None


def _tags(run: Path, record: Mapping[str, Any]) -> str | None:
    """How often each tag occurs in each folder, if the run counted: in a file of its own or in `run.json`."""
    counts = _json(run / TAGS) or _data(record).get("tag_frequency")
    return json.dumps(counts, ensure_ascii=False, sort_keys=True) if counts else None


def _data(record: Mapping[str, Any]) -> Mapping[str, Any]:
    data = record.get("data")
    return data if isinstance(data, dict) else {}


def _record(run: Path) -> dict[str, Any]:
    return _json(run / "run.json")


def _json(file: Path) -> dict[str, Any]:
    try:
        content = read_json(file)
    except (OSError, ValueError):  # not there, or torn
        return {}
    return content if isinstance(content, dict) else {}
