"""Adapters of another program's run, as rules: those of the network, of its convolutions, of text encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.errors import Fault
from lun.migrate.draft import Draft

_CONVOLUTIONS = ["unet.*resnets.*", "unet.*samplers.*"]
TEXT = ("text_encoder*self_attn*", "text_encoder*mlp*")
"""All linear layers of text encoders' blocks."""


def kind_among(kinds: Mapping[str, str], name: str, where: str) -> str:
    """The class of a kind there. Raises `Fault` CFG03 for one that is not known."""
    if name not in kinds:
        fix = "docs/adapters.md has the kinds that are known"
        raise Fault("CFG03", f"there are no adapters {name} here", where=where, fix=fix)
    return kinds[name]


@dataclass(frozen=True)
class AdapterRules:
    """Adapters of one kind, and beside which layers.

    match         layers of the network; those of the preset where there are none
    convolutions  params of adapters beside convolutions, where there are any
    network       whether the network has adapters at all
    text          layers of text encoders that have them, too
    text_rate     of these, as a share of the rate
    """

    kind: str
    params: Mapping[str, Any]
    match: Sequence[str] = ()
    convolutions: Mapping[str, Any] | None = None
    network: bool = True
    text: Sequence[str] = ()
    text_rate: float = 1.0

    def lay(self, draft: Draft) -> None:
        """Write them; nothing else trains then."""
        recipe = {"target": f"ldm.adapters.{self.kind}", "params": dict(self.params)}
        rules: dict[str, Any] = {}
        if self.network:
            draft.stand_on("lora")
            rules["attention"] = {"match": list(self.match), "kind": recipe} if self.match else {"kind": recipe}
            if self.convolutions is not None:
                second = {**recipe, "params": {**self.params, **self.convolutions}}
                rules["convolutions"] = {"match": _CONVOLUTIONS, "kind": second}
        if self.text:
            rules["text"] = {"match": list(self.text), "kind": recipe}
        draft.set("model.params.adapter_config", {"target": "ldm.adapters.Adapters", "params": {"rules": rules}})
        if self.network and self.text and self.text_rate != 1:
            slower = {"text": {"match": "text_encoder*", "lr": f"{self.text_rate:.6g}x"}}
            draft.set(
                "model.params.training_config", {"target": "ldm.training.rules.Rules", "params": {"rules": slower}}
            )


def of_what_trained(draft: Draft, rules: AdapterRules) -> AdapterRules:
    """With text encoders where these were said to train, which they do no more by themselves."""
    said = draft.settings["model"]["params"]
    text, share = TEXT if said.get("cond_stage_trainable") else (), said.pop("cond_stage_lr_multiple", 1.0)
    draft.set("model.params.cond_stage_trainable", False)
    return replace(rules, text=text, text_rate=share)
