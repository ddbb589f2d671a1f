"""What a lone file says about how its network was trained, in its header, in the YAML beside it, and in its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.diffusion.prediction_names import PredictionType, library_name
from ldm.families.record import Family
from ldm.files.state import State
from ldm.keys.split_checkpoint import V_MARKER, ZERO_SNR_MARKER
from ldm.plain import read_plain_text
from ldm.plain_yaml import parse_yaml


@dataclass(frozen=True)
class Evidence:
    """What the network predicts, and by what that is known; `certain` is false for a guess by numbers or habit."""

    prediction: PredictionType
    reason: str
    certain: bool
    zero_terminal_snr: bool = False


def evidence_of(state: State, family: Family, metadata: Mapping[str, Any], path: Path) -> Evidence:
    """The prediction of the UNet among `state`, which was read from the file `path` with `metadata` in its header."""
    zero_snr = ZERO_SNR_MARKER in state or metadata.get("ss_zero_terminal_snr") == "True"
    declared = library_name(metadata.get("modelspec.prediction_type") or metadata.get("modelspec.predict_key"))
    if declared:
        return Evidence(declared, "its metadata", True, zero_snr)
    if written := _written_beside(path.with_suffix(".yaml")):
        return Evidence(written, f"{path.with_suffix('.yaml').name} beside it", True, zero_snr)
    if V_MARKER in state:
        return Evidence("v_prediction", f"its tensor {V_MARKER}", True, zero_snr)
    guess = family.guess
    if guess.measured and (measured := guess.measured(state)):
        return Evidence(*measured, certain=False)
    return Evidence(guess.usual, "what this family usually does", guess.certain, zero_snr)


def _written_beside(file: Path) -> PredictionType | None:
    """What a config in CompVis' form says; None where there is none, or where it says nothing."""
    if not file.is_file():
        return None
    try:
        params = parse_yaml(read_plain_text(file))["model"]["params"]
    except (ValueError, KeyError, TypeError, OSError):  # another program's file
        return None
    return library_name(params.get("parameterization", "eps")) if isinstance(params, dict) else None
