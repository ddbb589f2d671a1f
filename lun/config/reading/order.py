"""The order of layers: shipped files by what they are for, then one's own as given; the command line has no say in it.

What another layer would discard is refused, so that every file that is named has its whole effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import combinations
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.reading.extends import Layer
from lun.config.reading.layers import merged
from lun.config.reading.presets import Preset, preset_of, presets
from lun.config.reading.yaml_files import HOME
from lun.config.reading.yaml_tree import Node
from lun.config.schema import shown
from lun.config.suggestions import raise_all

HOW_TO_RUN, WHAT_TO_TRAIN, MODEL, DATA, OPTION, OWN = range(6)
RANK_OF_FOLDER = {"demo": WHAT_TO_TRAIN, "models": MODEL, "data": DATA, "options": OPTION}
SHIPPED = (HOME / "configs").resolve()
HOLE = "???"
"""A setting that is left to whoever uses the file, so that anything may go over it."""


def in_order(layers: Sequence[Layer]) -> list[Layer]:
    """The layers, each once, from the lowest up: how to run, what to train, model, data, options, one's own files.

    A file lies over those that it extends; one's own keep the order in which they were given. Raises `Fault` CFG08 for
    shipped layers of which one would discard what another sets, for a shipped layer that was named after a file of
    one's own that discards what it sets, and for one that does not fit the model; an ExceptionGroup of several.
    """
    shipped = _Shipped(layers)
    raise_all([*_of_other_models(shipped), *_conflicts(shipped), *_without_effect(layers, shipped)])
    return [*shipped.layers, *(layer for layer in layers if _rank(layer) == OWN)]


def is_own(file: Path) -> bool:
    """Whether a file is a person's, and none of those that are shipped by what they are for."""
    return _rank_of(file.resolve()) == OWN


def _rank(layer: Layer) -> int:
    return _rank_of(layer.place)


@cache
def _rank_of(place: Path) -> int:
    """Of the file at `place`, links resolved."""
    if not place.is_relative_to(SHIPPED):
        return OWN
    place = place.relative_to(SHIPPED)
    if len(place.parts) > 1:
        return RANK_OF_FOLDER.get(place.parts[0], OWN)
    if place.stem == "training-lightning":
        return HOW_TO_RUN
    return WHAT_TO_TRAIN if place.stem.startswith("training-") else OWN


class _Shipped:
    """The shipped layers in their order.

    rank        of each, by its place
    stands_on   what each extends, directly or not, by its place
    layers      by rank; one that a layer of a lower rank extends comes directly below that one
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        given = {layer.place: layer for layer in layers if _rank(layer) < OWN}
        self.rank = {place: _rank(layer) for place, layer in given.items()}
        self.stands_on: dict[Path, frozenset[Path]] = {}
        for place, layer in given.items():  # each comes after those that it extends
            further = (self.stands_on.get(below, frozenset()) for below in layer.extends)
            self.stands_on[place] = frozenset(layer.extends).union(*further)
        self.lowest, self.highest = dict(self.rank), dict(self.rank)
        for place, stood_on in self.stands_on.items():
            for below in stood_on & self.rank.keys():
                self.lowest[below] = min(self.lowest[below], self.rank[place])
                self.highest[place] = max(self.highest[place], self.rank[below])
        self.layers = sorted(given.values(), key=self._key)

    def _key(self, layer: Layer) -> tuple[int, int, int, str]:
        place = layer.place
        return self.lowest[place], self.highest[place], len(self.stands_on[place]), place.stem

    def pairs(self) -> Iterator[tuple[Layer, Layer]]:
        """The layers of one rank of which neither stands on the other."""
        for one, other in combinations(self.layers, 2):
            if self.rank[one.place] == self.rank[other.place] and one.place not in self.stands_on[other.place]:
                yield one, other

    def above(self, layer: Layer, among: Sequence[Layer]) -> list[Layer]:
        """Those `among` which extend a layer, directly or not."""
        return [other for other in among if layer.place in self.stands_on[other.place]]

    def below(self, *layers: Layer) -> Node:
        """What lies below layers of one rank: those of lower ranks, and what they stand on."""
        rank = self.rank[layers[0].place]
        stood_on = frozenset[Path]().union(*(self.stands_on[layer.place] for layer in layers))
        nodes = [one.node for one in self.layers if self.rank[one.place] < rank or one.place in stood_on]
        return reduce(merged, nodes, Node({}, ""))


# What layers do to one another


def _conflicts(shipped: _Shipped) -> Iterator[Fault]:
    """Pairs of one rank whose result would depend on which comes first."""
    for one, other in shipped.pairs():
        if differing := _differing(shipped.below(one, other), one, other):
            yield _conflict(one, other, differing, shipped)


def _without_effect(given: Sequence[Layer], shipped: _Shipped) -> Iterator[Fault]:
    """Shipped layers that were named after a file of one's own which discards what they set."""
    last = {layer.place: position for position, layer in enumerate(given)}
    for position, own in enumerate(given):
        for layer in shipped.layers if _rank(own) == OWN else ():
            if last[layer.place] > position and (differing := _differing(shipped.below(layer), layer, own)):
                yield _wins(own, layer, differing)


def _differing(below: Node, one: Layer, other: Layer) -> tuple[str, ...]:
    """The first setting that is another one when `other` lies over `one` than the other way round; empty if none is."""
    first, second = (_without_holes(layer.node) for layer in (one, other))
    here, there = merged(merged(below, first), second), merged(merged(below, second), first)
    return _first_difference(here.plain(), there.plain())


def _first_difference(one: Any, other: Any, path: tuple[str, ...] = ()) -> tuple[str, ...]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in (*one, *(key for key in other if key not in one)):
            if key not in one or key not in other:
                return (*path, key)
            if difference := _first_difference(one[key], other[key], (*path, key)):
                return difference
        return ()
    return () if one == other else path


def _without_holes(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    items = {key: _without_holes(item) for key, item in node.value.items() if item.value != HOLE}
    return replace(node, value=items)


# Saying it


def _conflict(one: Layer, other: Layer, path: tuple[str, ...], shipped: _Shipped) -> Fault:
    names = sorted((one, other), key=lambda layer: layer.file.stem)
    first, second = (layer.file.stem for layer in names)
    setting = ".".join(path)
    models = shipped.rank[one.place] == MODEL
    why = "a run trains one model" if models else f"one would discard what the other says of {setting}"
    through = [text for layer in names if (text := _extended_by(layer, shipped))]
    return Fault(
        "CFG08",
        f"{first} and {second} cannot be used together",
        where=", ".join(_place(layer, path) for layer in names),
        why="\n".join([why, *through]),
        fix="leave one of them out" + ("" if models else f"; a single setting goes over everything: {setting}=..."),
    )


def _wins(own: Layer, layer: Layer, path: tuple[str, ...]) -> Fault:
    setting, name = ".".join(path), layer.file.stem
    return Fault(
        "CFG08",
        f"{name} would be without effect on {setting}",
        where=f"{_place(own, path)}, {_place(layer, path)}",
        why=f"one's own files go over those that are shipped, and {own.file} says what {setting} is",
        fix=f"delete that from {own.file}; or, if it shall go over {name}, name {name} first",
    )


def _place(layer: Layer, path: tuple[str, ...]) -> str:
    """`8gb.yaml:8 (1)`: where a layer says, as nearly as it does, what the setting at `path` is."""
    node = layer.node
    for key in path:
        if not isinstance(node.value, dict) or key not in node.value:
            break
        node = node.value[key]
    return node.where if isinstance(node.value, dict | list) else f"{node.where} ({shown(node.value)})"


def _extended_by(layer: Layer, shipped: _Shipped) -> str:
    names = sorted(one.file.stem for one in shipped.layers if layer.place in one.extends)
    return f"{layer.file.stem} is part of {', '.join(names)}" if names else ""


def _of_other_models(shipped: _Shipped) -> Iterator[Fault]:
    """Presets that are not for the model that was named with them.

    What one extends counts for it: a model is not those that it differs from, and a preset that says itself what it is
    for answers for those that it is made of.
    """
    models = [layer for layer in shipped.layers if shipped.rank[layer.place] == MODEL]
    named = [layer.file.stem for layer in models if not shipped.above(layer, models)]
    speaking = [layer for layer in shipped.layers if preset_of(layer.file).fits]
    for layer in speaking:
        preset = preset_of(layer.file)
        if shipped.above(layer, speaking):
            continue
        if wrong := [model for model in named if model not in preset.fits]:
            yield _does_not_fit(layer, preset, wrong[0])


def _does_not_fit(layer: Layer, preset: Preset, model: str) -> Fault:
    others = [one.name for one in presets() if model in one.fits]
    return Fault(
        "CFG08",
        f"{preset.name} is not for {model}",
        where=layer.file.as_posix(),
        why=f"it fits {', '.join(preset.fits)}",
        fix=(f"made for {model}: {', '.join(others)}\n" if others else "")
        + f"to try it all the same, copy {layer.file.name} to a file of your own and name that",
    )
