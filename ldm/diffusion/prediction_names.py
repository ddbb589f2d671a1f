"""What a prediction is called: by diffusers' schedulers and in the metadata of files."""

from collections.abc import Mapping
from typing import Literal

from ldm.diffusion.prediction import Prediction

PredictionType = Literal["epsilon", "v_prediction", "sample", "flow_prediction", "edm_prediction"]
"""What a network predicts, in the words of diffusers' schedulers, but for EDM's, which they call epsilon as well."""

LIBRARY_NAMES: Mapping[Prediction, PredictionType] = {
    "eps": "epsilon",
    "v": "v_prediction",
    "x0": "sample",
    "flow": "flow_prediction",
    "edm": "edm_prediction",
}
FILE_NAMES: Mapping[PredictionType, str] = {"epsilon": "epsilon", "v_prediction": "v", "flow_prediction": "flow"}
"""The words of ModelSpec, in which x0 and EDM's have none."""

_BY_WORD: Mapping[str, Prediction] = (
    {ours: ours for ours in LIBRARY_NAMES}
    | {theirs: ours for ours, theirs in LIBRARY_NAMES.items()}
    | {word: ours for ours, theirs in LIBRARY_NAMES.items() if (word := FILE_NAMES.get(theirs))}
)


def prediction_named(word: object) -> Prediction | None:
    """The prediction that a word of ours, of diffusers' or of a file's means; None for any other value."""
    return _BY_WORD.get(word) if isinstance(word, str) else None


def library_name(word: object) -> PredictionType | None:
    """The same in the words of diffusers' schedulers."""
    prediction = prediction_named(word)
    return LIBRARY_NAMES[prediction] if prediction else None
