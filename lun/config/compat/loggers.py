"""One bare logger where names are expected."""

from __future__ import annotations

from lun.config.compat.rewriting import Config, Upgrade, at, put, without

_BARE = ("target", "params")


def loggers(config: Config) -> Upgrade:
    """`lightning.logger: {target, params}` as a logger with a name, beside those that other layers named."""
    given = at(config, "lightning", "logger")
    if not isinstance(given.get("target"), str):
        return Upgrade(config)
    name = str(at(given, "params").get("name") or given["target"].rpartition(".")[2])
    recipe = {key: given[key] for key in _BARE if key in given}
    named = {**without(given, set(_BARE)), name: recipe}
    return Upgrade(put(config, named, "lightning", "logger"))
