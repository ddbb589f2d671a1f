"""The words for a prediction, each read back as what it was written for."""

import pytest

from ldm.diffusion.prediction import PAIRS, Prediction
from ldm.diffusion.prediction_names import FILE_NAMES, LIBRARY_NAMES, library_name, prediction_named


@pytest.mark.parametrize("prediction", PAIRS)
def test_a_prediction_is_known_by_every_word_for_it(prediction: Prediction) -> None:
    library = LIBRARY_NAMES[prediction]
    for word in (prediction, library, FILE_NAMES.get(library, prediction)):
        assert (prediction_named(word), library_name(word)) == (prediction, library)


@pytest.mark.parametrize("word", ["odd", "", None, 3, ["v"]])
def test_any_other_value_is_no_prediction(word: object) -> None:
    assert prediction_named(word) is library_name(word) is None
