"""A model as a checkpoint of its run left it: to be looked at and drawn from, not to be trained on."""

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault
from ldm.files.load import compare, refuse_nonfinite
from ldm.files.state import State
from ldm.keys.averaged import holds_average
from ldm.keys.split_checkpoint import EMA
from ldm.models.base import TrainedModel


def restore(
    model: TrainedModel,
    state: State,
    source: str,
    averaged: bool | None,
    base: Mapping[str, Any] | None = None,
) -> bool:
    """Build the networks of `model` and fill them from a checkpoint's `state_dict`; whether the average was taken.

    base       what the checkpoint left out, as it says itself
    averaged   the average where there is one (None), in any case (True), or never (False)
    Raises `Fault` MOD03 if an average is asked for that is not there, or if the tensors are not those of the model.
    """
    takes_average = holds_average(state) if averaged is None else averaged
    if takes_average and not holds_average(state):
        raise Fault("MOD03", f"{source} holds no averaged (EMA) weights", fix="weights=raw, or leave ema=true out")
    model.expect_checkpoint()
    model.configure_model()
    own = model.state_dict()
    raw = {key: value for key, value in state.items() if not key.startswith(EMA)}
    # Files of 2022 hold the noise schedule too, as constants without a dot in their names.
    renamed = {key: value for key, value in model.from_disk(raw).items() if key in own or "." in key}
    if base is not None:
        model.base.require(base, renamed, own, source)
        renamed = {key: value for key, value in own.items() if model.base.holds(key)} | renamed
    if not (comparison := compare(renamed, own)).fits:
        raise Fault("MOD03", f"{source} does not fit the config of its run", why=comparison.render())
    refuse_nonfinite(renamed, source)
    model.load_state_dict(renamed)
    if takes_average:
        model.take_average(state)
    model.eval()
    return takes_average
