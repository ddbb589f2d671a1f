"""What a single file says about itself: the ModelSpec standard 1.0.1, in the words that other programs read."""

from collections.abc import Mapping
from typing import get_args

from ldm.convert.model import Model
from ldm.diffusion.prediction_names import FILE_NAMES
from ldm.families.facts import Unconditional
from ldm.families.flow_marks import SHIFT, SPACING, is_flow
from ldm.families.record import Guess
from ldm.files.write import HASH, NO_HASH

PREFIX = "modelspec."
VERSION = "1.0.1"
REFERENCE = "https://github.com/Stability-AI/generative-models"  # whose names for tensors the file uses
UNCONDITIONAL = "lun.unconditional"


def metadata_of(model: Model, title: str, date: str) -> dict[str, str]:
    """Metadata of a single file of `model`, all of it text.

    What the file or run it came from says about it stays; what follows from the tensors is written anew. `date` is the
    day and time (ISO 8601) of the weights, not of the writing, so that the same weights give the same bytes.
    """
    said = {"title": title, "date": date, **_resolution(model), **_license(model)}
    kept = {key: value for key, value in model.facts.metadata.items() if key != HASH}
    facts = {
        "sai_model_spec": VERSION,
        "architecture": architecture(model),
        "implementation": REFERENCE,
        **_prediction(model),
    }
    named = {PREFIX + key: value for key, value in said.items()} | kept
    named |= _zero_snr(model) | _unconditional(model) | _flow(model)
    return {"format": "pt", **named, **{PREFIX + key: value for key, value in facts.items()}, HASH: NO_HASH}


def architecture(model: Model) -> str:
    """ModelSpec's name for what the tensors are."""
    if model.family is None:
        return model.latent.architecture
    return model.family.spec(model.unet, model.facts.prediction).architecture


def side(model: Model) -> int | None:
    """The side in pixels of the pictures that a model makes; None for an autoencoder, which takes any."""
    if model.family is None:
        return None
    return model.facts.resolution or model.family.spec(model.unet, model.facts.prediction).resolution


def resolution_in(metadata: Mapping[str, str]) -> int | None:
    """The side in a file's metadata, if it is there."""
    width = metadata.get(f"{PREFIX}resolution", "").partition("x")[0]
    return int(width) if width.isdecimal() else None


def unconditional_in(metadata: Mapping[str, str]) -> Unconditional | None:
    """What stood for no caption in training, if a file's metadata has it."""
    said = metadata.get(UNCONDITIONAL)
    return next((value for value in get_args(Unconditional) if value == said), None)


def _resolution(model: Model) -> dict[str, str]:
    pixels = side(model)
    return {"resolution": f"{pixels}x{pixels}"} if pixels else {}


def _license(model: Model) -> dict[str, str]:
    """Of the published model, which holds for what is trained from it."""
    license = model.family.spec(model.unet, model.facts.prediction).license if model.family and model.unet else ""
    return {"license": license} if license else {}


def _prediction(model: Model) -> dict[str, str]:
    """In the standard's key and in ComfyUI's, which is no part of the standard."""
    prediction = model.facts.prediction
    word = FILE_NAMES.get(prediction) if model.family and prediction else None
    return {"prediction_type": word, "predict_key": word} if word else {}


def _zero_snr(model: Model) -> dict[str, str]:
    """In kohya's key; the standard has none."""
    return {"ss_zero_terminal_snr": "True"} if model.facts.zero_terminal_snr else {}


def _flow(model: Model) -> dict[str, str]:
    """Shift and spacing of the levels that sampling visits, in keys of this program."""
    scheduler, guess = model.facts.scheduler, model.family.guess if model.family else Guess()
    if not is_flow(scheduler):
        return {}
    spacing = scheduler.get("timestep_spacing", guess.spacing)
    return {SHIFT: str(float(scheduler.get("flow_shift", 1.0))), SPACING: spacing}


def _unconditional(model: Model) -> dict[str, str]:
    """In a key of this program, since the standard has none; only where it is not what the family is known for."""
    differs = model.unconditional != model.usual_unconditional
    return {UNCONDITIONAL: str(model.unconditional)} if differs else {}
