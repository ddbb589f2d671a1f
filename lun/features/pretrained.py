"""Models of transformers out of a folder on this machine: whole, safetensors alone, and no code of anybody's."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.plain import read_json

DType = Literal["fp32", "fp16", "bf16"]
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
CONFIG = "config.json"
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model")
"""Without one of them the library makes a tokenizer that knows nothing, and says nothing."""
VIDEOS = "video_processor"
_KEPT_OUT = {"local_files_only": True, "trust_remote_code": False}
_REFUSALS = (SafetensorError, OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError, AttributeError)
"""What the library raises for folders that do not hold what was asked for."""


@dataclass(frozen=True)
class Purpose:
    """What a model is needed for, in words (`captions`); where its folder is named; one that publishers have."""

    what: str
    where: str = "--model"
    published: str = "ORGANISATION/MODEL"

    @property
    def fix(self) -> str:
        return f"{self.where} DIR, with a model of transformers: hf download {self.published} --local-dir DIR"


def device_of(name: str | None) -> torch.device:
    """The device of this name, by default an accelerator if there is one. Raises `Fault` DEV01."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    try:
        device = torch.device(name) if name else accelerator or torch.device("cpu")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        what = f"the device {name} cannot be used"
        raise Fault("DEV01", what, where="--device", why=why, fix="--device cpu") from error
    return device


def load_model(
    kinds: str | tuple[str, ...], folder: Path, device: torch.device, dtype: DType, purpose: Purpose
) -> nn.Module:
    """The model in `folder`, for inference.

    kinds  the class of transformers that reads it: an `Auto` class, or those of the models themselves

    Raises `Fault` MOD01 where there is no model, MOD02 for one of another kind, MOD05 for weights that are pickles.
    """
    config = read_config(folder, purpose)
    names = (kinds,) if isinstance(kinds, str) else kinds
    if not any(name.startswith("Auto") for name in names) and config.get("architectures", [names[0]])[0] not in names:
        raise of_another_kind(folder, config, purpose)
    _require_safetensors(folder, purpose)
    with _quiet():
        try:
            model, report = getattr(transformers, names[0]).from_pretrained(
                str(folder), use_safetensors=True, dtype=DTYPES[dtype], output_loading_info=True, **_KEPT_OUT
            )
        except _REFUSALS as error:
            raise of_another_kind(folder, config, purpose) from error
    if missing := sorted(report["missing_keys"]):
        why = f"{len(missing)} tensors are missing, such as {missing[0]}"
        raise Fault("MOD02", f"{folder} is not a whole model for {purpose.what}", where=purpose.where, why=why)
    loaded: nn.Module = model.to(device).eval().requires_grad_(False)
    return loaded


def load_processor(kind: str, folder: Path, purpose: Purpose) -> Any:
    """What makes pictures and text into input, by an `Auto` class of transformers. Raises `Fault` MOD02."""
    with _quiet():
        try:
            reader = getattr(transformers, kind) if kind != "AutoProcessor" else _without_videos(folder)
            processor = reader.from_pretrained(str(folder), **_KEPT_OUT)
        except _REFUSALS as error:
            why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise _incomplete(folder, purpose, why) from error
    if (hasattr(processor, "tokenizer") or kind == "AutoTokenizer") and not any(
        path for name in VOCABULARIES for path in folder.glob(name)
    ):
        raise _incomplete(folder, purpose, f"it has none of {', '.join(VOCABULARIES)}")
    return processor


def _without_videos(folder: Path) -> Any:
    """`AutoProcessor`, or the model's own class without the part for videos, which pictures do not need: Qwen-VL's,
    among others, is made for torchvision alone."""
    mapped = transformers.PROCESSOR_MAPPING
    known = mapped.get(type(transformers.AutoConfig.from_pretrained(str(folder), **_KEPT_OUT)), None)
    if known is None or VIDEOS not in known.get_attributes():
        return transformers.AutoProcessor
    parts = [part for part in known.get_attributes() if part != VIDEOS]
    return type(known.__name__, (known,), {"get_attributes": classmethod(lambda cls: list(parts))})


def _incomplete(folder: Path, purpose: Purpose, why: str) -> Fault:
    fix = "get all of its small files: preprocessor_config.json, tokenizer.json, tokenizer_config.json, ..."
    return Fault("MOD02", f"{folder} has no processor for {purpose.what}", where=purpose.where, why=why, fix=fix)


def on_device(inputs: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """What a processor made, where a model computes and as precisely."""
    first = next(model.parameters())
    return {
        name: value.to(first.device, first.dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
    }


def read_config(folder: Path, purpose: Purpose) -> dict[str, Any]:
    """What `config.json` of a folder says. Raises `Fault` MOD01 where there is none."""
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        what = f"{folder} is no folder with a model for {purpose.what}"
        raise Fault("MOD01", what, where=f"{purpose.where}, {CONFIG}", why=why, fix=purpose.fix) from error
    return config if isinstance(config, dict) else {}


def _require_safetensors(folder: Path, purpose: Purpose) -> None:
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    why = f"{pickles[0]} is a pickle, which may run code while it is read" if pickles else "it has no weights"
    fix = "get model.safetensors of the same model, which most publishers have too"
    raise Fault("MOD05" if pickles else "MOD01", f"{folder} has no .safetensors", where=purpose.where, why=why, fix=fix)


def of_another_kind(folder: Path, config: dict[str, Any], purpose: Purpose) -> Fault:
    """`Fault` MOD02 for a model that does something else."""
    own = "; its class is code of its own, which is not run" if "auto_map" in config else ""
    classes = ", ".join(map(str, config.get("architectures") or [])) or "a class that it does not name"
    why = f"its {CONFIG} says {config.get('model_type', 'no model_type')}, {classes}{own}"
    return Fault("MOD02", f"{folder} is no model for {purpose.what} that can be read", where=purpose.where, why=why)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's reports and bars, which speak of what is judged here."""
    reports = logging.getLogger("transformers")
    before = reports.level
    reports.setLevel(logging.CRITICAL)
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        reports.setLevel(before)
        if bars:
            transformers.utils.logging.enable_progress_bar()
