"""Old parameters of the data module and its datasets."""

from __future__ import annotations

from lun.config.compat.rewriting import Config, Upgrade, at, listed, put, rewrite, without

_LOCAL_BASE = "lun.data.local.LocalBase"
_LOADER_SWITCHES = {"shuffle_test_loader", "shuffle_val_dataloader"}


def data(config: Config) -> Upgrade:
    """Without `mode` of the first local dataset and without switches for the order of validation pictures."""
    notes: list[str] = []
    params = at(config, "data", "params")
    if dropped := _LOADER_SWITCHES & params.keys():
        config = put(config, without(params, _LOADER_SWITCHES), "data", "params")
        notes.append(
            f"data.params: without effect here, ignored: {listed(list(dropped))}"
            " (validation goes through the pictures in their order)"
        )

    def bare(recipe: Config) -> Config:
        given = at(recipe, "params")
        if recipe["target"] != _LOCAL_BASE or "mode" not in given:
            return recipe
        notes.append(f"data: mode: {given['mode']} of {_LOCAL_BASE} is ignored")
        return {**recipe, "params": without(given, {"mode"})}

    return Upgrade(rewrite(config, bare), tuple(dict.fromkeys(notes)))
