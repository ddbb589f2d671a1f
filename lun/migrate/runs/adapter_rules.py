"""Adapters of another program's run, as rules: those of the network, of its convolutions, of text encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldm.errors import Fault
from lun.migrate.draft import Draft

_CONVOLUTIONS = ["unet.*resnets.*", "unet.*samplers.*"]
_TEXT = ["text_encoder*self_attn*", "text_encoder*mlp*"]


def kind_among(kinds: Mapping[str, str], name: str, where: str) -> str:
    """The class of a kind there. Raises `Fault` CFG03 for one that is not known."""
    if name not in kinds:
        fix = "docs/adapters.md has the kinds that are known"
        raise Fault("CFG03", f"there are no adapters {name} here", where=where, fix=fix)
    return kinds[name]


def lay_adapters(
    draft: Draft,
    kind: str,
    params: Mapping[str, Any],
    match: Sequence[str] = (),
    convolutions: Mapping[str, Any] | None = None,
) -> None:
    """Adapters in the place of what was said to train; of text encoders too, where these did, at their share.

    match         layers of the network; those of the preset where there are none
    convolutions  params of adapters beside convolutions
    """
    draft.stand_on("lora")
    recipe = {"target": f"ldm.adapters.{kind}", "params": dict(params)}
    rules: dict[str, Any] = {"attention": {"match": list(match), "kind": recipe} if match else {"kind": recipe}}
    if convolutions is not None:
        rules["convolutions"] = {"match": _CONVOLUTIONS, "kind": {**recipe, "params": {**params, **convolutions}}}
    said = draft.settings["model"]["params"]
    share = said.pop("cond_stage_lr_multiple", None)
    if said.get("cond_stage_trainable"):
        rules["text"] = {"match": _TEXT, "kind": recipe}
        if share is not None:
            slower = {"text": {"match": "text_encoder*", "lr": f"{share:g}x"}}
            recipe_of_rules = {"target": "ldm.training.rules.Rules", "params": {"rules": slower}}
            draft.set("model.params.training_config", recipe_of_rules)
    draft.set("model.params.cond_stage_trainable", False)
    draft.set("model.params.adapter_config", {"target": "ldm.adapters.Adapters", "params": {"rules": rules}})
