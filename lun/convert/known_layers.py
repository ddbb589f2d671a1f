"""Which published model a file of adapters is for, by its layers: no base has to be at hand for that."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ldm.adapters.adapter_files import from_file
from ldm.adapters.adapter_names import names_in_files
from ldm.adapters.adapter_set import AdapterSet
from ldm.adapters.arithmetic import shape_of
from ldm.errors import Fault
from ldm.families.record import AdapterNames, Family
from ldm.families.registry import known_families
from ldm.files.state import State
from ldm.models.diffusion.adapter_weights import base_state
from ldm.models.diffusion.ddpm import DDPM
from ldm.training.groups import named_layers
from lun.cli.arguments import Arguments
from lun.run.build_model import build_model
from lun.run.data_roots import NOWHERE
from lun.run.settings import read_settings

log = logging.getLogger(__name__)
VERSION = "ss_base_model_version"


def known_adapters(state: State, metadata: Mapping[str, str], source: str) -> AdapterSet:
    """The adapters of a file, with the networks of the first published model that has all of their layers.

    Raises `Fault` MOD03 where none has.
    """
    by_name: AdapterSet | None = None
    by_word = False
    fault: Fault | None = None
    for family, config in _likely(metadata):
        assert family.adapters is not None
        said = metadata.get(VERSION) in _versions(family.adapters)
        if by_word and not said:
            break  # it says what it is for, and its names agree
        networks = _without_memory(config)
        try:
            layers = from_file(state, names_in_files(networks, family.adapters), source)
        except Fault as refused:
            fault = fault or refused
            continue
        predicts_v = metadata.get(VERSION) == family.adapters.version_of_v != ""
        own = base_state(networks["unet"])
        adapters = AdapterSet(layers, networks, family, own, "v_prediction" if predicts_v else None)
        if _fits(layers, networks):
            return adapters
        by_name = by_name or adapters
        by_word = by_word or said
    if by_name is None:
        assert fault is not None
        raise fault
    log.warning("%s has widths of no published model; by its names it is taken for %s", source, by_name.family.title)
    return by_name


def _likely(metadata: Mapping[str, str]) -> Iterator[tuple[Family, str]]:
    """(family, config of one of its models) of all that files of adapters are known for; first what the file says."""
    families = [family for family in known_families() if family.adapters is not None]
    for family in sorted(families, key=lambda one: metadata.get(VERSION) not in _versions(one.adapters)):
        for variant in family.variants:
            if variant.config and not variant.inpaints:
                yield family, variant.config.split()[0]


def _versions(names: AdapterNames | None) -> set[str]:
    return {names.version, names.version_of_v} - {""} if names is not None else set()


def _without_memory(config: str) -> dict[str, nn.Module]:
    model = build_model(read_settings(Arguments(base=(config,), data_root=(NOWHERE,)), None).config)
    assert isinstance(model, DDPM)
    parts = [part for part in model.part_recipes().values() if part.trainable is not None]
    return {str(part.trainable): part.build_on_meta() for part in parts}


def _fits(layers: Mapping[str, Mapping[str, Tensor]], networks: Mapping[str, nn.Module]) -> bool:
    known: dict[str, Any] = named_layers(networks)
    shapes = {name: known[name].weight.shape for name in layers}
    return all(shape_of(own, shapes[name][2:]) == shapes[name] for name, own in layers.items())
