"""Which layers get which adapter: rules over the names of layers, as a configuration gives them."""

import difflib
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from ldm.adapters.embedding_settings import Embedding, place_embeddings
from ldm.adapters.layer import WHERE, Adapter, attach, is_adaptable
from ldm.admission import admitted, configurable
from ldm.diffusion.draws import key
from ldm.errors import Fault
from ldm.training.groups import named_layers
from ldm.training.rules import selection
from ldm.util import instantiate_from_config, is_recipe

RULES = f"{WHERE}.params.rules"
NONE: Mapping[str, Any] = MappingProxyType({})


@configurable
class Adapters:
    """Adds adapters to layers by their names: the first rule that matches a layer says which kind it gets.

    A rule is a map:

    match  a glob, or several, over the names of linear layers and convolutions, such as `unet.*attentions.*`,
           `text_encoder.*.self_attn.*` (`*` crosses dots; `text_encoder_2.` is SDXL's second)
    kind   a recipe: `{target: ldm.adapters.LoRA, params: {rank: 16, alpha: 8, dropout: 0.1}}`; null leaves them alone

    What an adapter starts with is drawn by the seed and its layer's name: another rule changes no other layer's start.

    rules       {name: rule}; null instead of a rule removes that of an earlier file
    embeddings  {name: embedding}: words of one's own for captions, as `ldm.adapters.embedding_settings.Embedding` says
    """

    def __init__(self, rules: Mapping[str, Any] = NONE, embeddings: Mapping[str, Any] = NONE) -> None:
        self.rules = {name: _parsed(name, rule) for name, rule in rules.items() if rule is not None}
        self.embeddings = [Embedding.parse(name, given) for name, given in embeddings.items() if given is not None]

    @staticmethod
    def plans_by_shape(params: Mapping[str, Any]) -> bool:
        """Whether names and shapes of networks show what adapters of these arguments train: a word of one's own asks an
        encoder's vocabulary."""
        return not params.get("embeddings")

    def __call__(self, networks: Mapping[str, nn.Module], seed: int) -> None:
        """Raises `Fault` CFG08 for a rule that matches no layer, or none that is left by earlier ones."""
        layers = {name: layer for name, layer in named_layers(networks).items() if is_adaptable(layer)}
        used: set[str] = set()
        for name, layer in layers.items():
            rule = next((rule for rule, (selects, _) in self.rules.items() if selects(name)), None)
            if rule is None:
                continue
            used.add(rule)
            if (kind := self.rules[rule][1]) is not None:
                generator = torch.Generator().manual_seed(key(seed, f"adapter/{name}"))
                attach(layer, _built(kind, layer, generator, rule))
        for rule in self.rules:
            if rule not in used:
                raise self._unused(rule, list(layers))
        place_embeddings(self.embeddings, networks)

    def _unused(self, rule: str, names: list[str]) -> Fault:
        where = f"{RULES}.{rule}"
        matched = [name for name in names if self.rules[rule][0](name)]
        if matched:
            why = f"it matches {len(matched)} layers, first {matched[0]}, which earlier rules have all taken"
            return Fault("CFG08", f"the rule {rule} places no adapter", where=where, why=why, fix="put it first")
        shown = difflib.get_close_matches(rule, names, 1) or names[len(names) // 2 :][:1]
        why = f"layers have names such as {', '.join(dict.fromkeys([*names[:1], *shown, *names[-1:]]))}"
        fix = "another glob, or leave the rule out"
        return Fault("CFG08", f"the rule {rule} matches no layer", where=where, why=why, fix=fix)


def _parsed(name: str, rule: Any) -> tuple[Any, Any]:
    """(whether it matches a name, the kind's recipe or None). Raises `Fault` CFG03 for what is no rule."""
    where = f"{RULES}.{name}"
    if not isinstance(rule, Mapping) or rule.keys() != {"match", "kind"}:
        keys = f"it has {', '.join(map(str, rule))}" if isinstance(rule, Mapping) else f"got {rule!r}"
        fix = f"{where}={{match: 'unet.*attentions.*', kind: {{target: ldm.adapters.LoRA}}}}"
        why = f"a rule is a map with match and kind; {keys}"
        raise Fault("CFG03", f"{where} is no rule", where=where, why=why, fix=fix)
    kind = rule["kind"]
    if kind is not None and not is_recipe(kind):
        raise Fault("CFG03", f"{where}.kind is no recipe", where=where, fix="{target: ldm.adapters.LoRA}")
    return selection(rule["match"], f"{where}.match"), kind


def _built(kind: Any, layer: nn.Module, generator: torch.Generator, rule: str) -> Adapter:
    """Raises `Fault` CFG08 for a recipe of something else."""
    target = admitted(kind["target"])
    if not (inspect.isclass(target) and issubclass(target, Adapter)):
        where, fix = f"{RULES}.{rule}.kind", "a class derived from ldm.adapters.layer.Adapter"
        raise Fault("CFG08", f"{kind['target']} is no kind of adapter", where=where, fix=fix)
    adapter: Adapter = instantiate_from_config(kind, layer, generator)
    return adapter
