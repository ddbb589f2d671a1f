"""A model that draws with an average of its run's weights."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from lun.posthoc_ema.wanted_averages import is_width
from lun.sample.opened_model import SampledModel


def with_average(opened: SampledModel, average: Mapping[str, Tensor], name: str) -> SampledModel:
    """The model with weights by their names on disk, which go by `name`: a width in digits, or that of a weighting.

    They take the type and the device that the model's own have, which they replace.
    """
    tensors = opened.model.from_disk(dict(average))
    opened.model.load_state_dict(opened.model.state_dict() | tensors)
    return replace(opened, weights=f"power-{name}" if is_width(name) else name)
