"""What a lone file says about how its network was trained: in its header, the YAML beside it, its marks and numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldm.diffusion.prediction_names import PredictionType, library_name
from ldm.families.edm_marks import V, edm_of_marks
from ldm.families.flow_marks import FLOW, flow_of_metadata
from ldm.families.record import Family
from ldm.files.state import State
from ldm.keys.split_checkpoint import V_MARKER, ZERO_SNR_MARKER
from ldm.plain import read_plain_text
from ldm.plain_yaml import parse_yaml


@dataclass(frozen=True)
class Evidence:
    """What the network predicts, and by what that is known; `certain` is false for a guess by numbers or habit.

    scheduler  settings of a path other than the usual one, as `Facts` has them
    against    what the file says of itself that does not agree, for people
    """

    prediction: PredictionType
    reason: str
    certain: bool
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    against: str = ""


def evidence_of(state: State, family: Family, metadata: Mapping[str, Any], path: Path) -> Evidence:
    """The prediction of the UNet among `state`, which was read from the file `path` with `metadata` in its header.

    Raises `Fault` MOD03 for marks of a path that is not known.
    """
    declared = library_name(metadata.get("modelspec.prediction_type") or metadata.get("modelspec.predict_key"))
    if edm := edm_of_marks(state, str(path)):
        against = "" if declared in (None, edm.prediction) else f"its metadata says {declared}"
        return Evidence(edm.prediction, f"its tensor {edm.mark}", True, edm.scheduler, against)
    zero_snr = ZERO_SNR_MARKER in state or metadata.get("ss_zero_terminal_snr") == "True"
    scheduler = {"rescale_betas_zero_snr": True} if zero_snr else {}
    if declared == FLOW:
        scheduler = flow_of_metadata(metadata, family.guess.shift, family.guess.spacing)
    if declared:
        against = f"its tensor {V_MARKER} says v_prediction" if V_MARKER in state and declared != V else ""
        return Evidence(declared, "its metadata", True, scheduler, against)
    if written := _written_beside(path.with_suffix(".yaml")):
        return Evidence(written, f"{path.with_suffix('.yaml').name} beside it", True, scheduler)
    if V_MARKER in state:
        return Evidence("v_prediction", f"its tensor {V_MARKER}", True, scheduler)
    guess = family.guess
    if guess.measured and (measured := guess.measured(state)):
        return Evidence(*measured, certain=False)
    if guess.usual == FLOW:
        scheduler = flow_of_metadata(metadata, guess.shift, guess.spacing)
    return Evidence(guess.usual, "what this family usually does", guess.certain, scheduler)


def _written_beside(file: Path) -> PredictionType | None:
    """What a config in CompVis' form says; None where there is none, or where it says nothing."""
    if not file.is_file():
        return None
    try:
        params = parse_yaml(read_plain_text(file))["model"]["params"]
    except (ValueError, KeyError, TypeError, OSError):  # another program's file
        return None
    return library_name(params.get("parameterization", "eps")) if isinstance(params, dict) else None
