"""Small data sets as boards export them: one JSON file per picture below `metadata/`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image


def put_board(root: Path, records: Mapping[str, Mapping[str, Any]], pictures: bool = True) -> Path:
    """`metadata/<name>.json` for each record and its picture of 6 x 4 pixels, unless its `path` leads out."""
    for name, record in records.items():
        file = root / "metadata" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record))
        path = root / str(record.get("path", "x"))
        if pictures and "path" in record and path.resolve().is_relative_to(root.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (6, 4)).save(path)
    return root
