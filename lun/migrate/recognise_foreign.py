"""Which trainer a file is of, by its form, and its sets."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.config.reading.yaml_files import read_text
from lun.config.reading.yaml_tree import parse
from lun.migrate import ai_toolkit, kohya, onetrainer, simpletuner
from lun.migrate.foreign import Found

KNOWN = "kohya's dataset TOML, OneTrainer's concepts JSON, SimpleTuner's multidatabackend JSON, ai-toolkit's YAML"


def read_foreign(path: Path) -> tuple[str, Found]:
    """(whose file it is, its sets). Raises `Fault` CFG01 for no file, CFG02 for one that is not of a known form."""
    if not path.exists():
        raise Fault("CFG01", f"file not found: {path}", where="FILE")
    content = _content(path)
    try:
        if isinstance(content, Mapping) and isinstance(content.get("datasets"), list):
            return "kohya", kohya.read(content)
        if isinstance(content, Mapping) and "config" in content:
            return "ai-toolkit", ai_toolkit.read(content)
        if isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
            if any("dataset_type" in one or "instance_data_dir" in one for one in content):
                return "SimpleTuner", simpletuner.read(content)
            if any("path" in one for one in content):
                return "OneTrainer", onetrainer.read(content)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(path, f"{type(error).__name__}: {error}") from error
    raise _unknown(path, "its form is that of none of them")


def _content(path: Path) -> Any:
    text = read_text(path)
    try:
        if path.suffix.lower() == ".toml":
            return tomllib.loads(text)
        if path.suffix.lower() == ".json":
            return parse_json(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, ValueError) as error:
        raise Fault("CFG02", f"{path} cannot be read", where=str(path), why=str(error)) from error
    return parse(text, path.as_posix()).plain()


def _unknown(path: Path, why: str) -> Fault:
    return Fault("CFG02", f"{path} is no file of data sets that is known", where=str(path), why=why, fix=KNOWN)
