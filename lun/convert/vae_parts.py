"""The VAE alone, or another one in its place."""

import logging
import math
from dataclasses import replace

from ldm.convert.model import Model
from ldm.errors import Fault
from ldm.keys.split_checkpoint import FIRST_STAGE
from lun.convert.arguments import VAE_ALONE
from lun.weights.opening import open_model

log = logging.getLogger(__name__)


def with_vae(model: Model, vae: str | None, trust_pickle: bool) -> Model:
    """`model` as it is (None), its VAE alone ("only"), or `model` with the VAE of another file or folder.

    Raises `Fault` MOD03 if there is no VAE, or one that does not fit.
    """
    if vae is None:
        return model
    if vae == VAE_ALONE:
        if not model.first_stage:
            raise Fault("MOD03", f"{model.source} holds no VAE", why=f"it holds: {', '.join(model.parts)}")
        return _vae_of(model)
    other = open_model(vae, trust_pickle=trust_pickle).model
    _require_fit(model, other)
    log.info("VAE      of %s", other.source)
    return model.with_part(FIRST_STAGE, other.state)


def _vae_of(model: Model) -> Model:
    """The VAE alone, with what followed from the family that it is of."""
    config = model.facts.configs.get("vae") or model.latent.config(model.first_stage)
    factor = model.facts.scale_factor or config["scaling_factor"]
    facts = replace(model.facts, configs={"vae": config}, scale_factor=factor, prediction=None, scheduler={})
    return replace(model.part(FIRST_STAGE), family=None, facts=facts)


def _require_fit(model: Model, other: Model) -> None:
    if not other.first_stage:
        raise Fault("MOD03", f"{other.source} holds no VAE", where="--vae", why=f"it holds: {', '.join(other.parts)}")
    mine = {key: value.shape for key, value in model.first_stage.items()}
    theirs = {key: value.shape for key, value in other.first_stage.items()}
    if mine and mine != theirs:
        differing = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        why = f"{len(differing)} tensors differ, first {differing[0]}"
        raise Fault("MOD03", f"the VAE of {other.source} is built otherwise than that of {model.source}", why=why)
    ours = model.facts.scale_factor or model.latent.scale
    known = other.facts.scale_factor or (other.family.latent.scale if other.family else None)
    if known is not None and not math.isclose(known, ours, rel_tol=1e-3):
        why = f"its latents are scaled by {known:g}, those of {model.source} by {ours:g}"
        raise Fault("MOD03", f"the VAE of {other.source} makes other latents", where="--vae", why=why)
    if known is None and (alike := model.latent.alike):
        log.warning("a VAE of %s has the same names and shapes: whether %s is one is unknown", alike, other.source)
