"""What a file of adapters says about itself, in the words by which other programs sort and show it."""

import json
from collections.abc import Mapping

from ldm.adapters.adapter_files import Layers
from ldm.diffusion.prediction_names import PredictionType
from ldm.families.record import Family
from ldm.files.state import State
from ldm.files.write import HASH, NO_HASH

RANKS = {"lora_down.weight": "lora", "hada_w1_b": "loha", "lokr_w2_b": "lokr", "lokr_w2": "lokr"}


def adapter_metadata(
    layers: Layers, family: Family, network: State, prediction: PredictionType | None, run: Mapping[str, str]
) -> dict[str, str]:
    """All text: kohya's keys, by which A1111 distinguishes versions, and ModelSpec's.

    network  the network's tensors under CompVis' names, for its variant
    run      what the run that trained them says
    """
    names = family.adapters
    assert names is not None
    algorithms = sorted({word for tensors in layers.values() for name, word in RANKS.items() if name in tensors})
    decomposed = any("dora_scale" in tensors for tensors in layers.values())
    lycoris = algorithms != ["lora"] or decomposed
    arguments = {"algo": algorithms[0]} if lycoris else {}
    arguments |= {"dora_wd": "True", "wd_on_output": "False"} if decomposed else {}
    version = names.version if prediction != "v_prediction" else names.version_of_v or names.version
    return {
        "format": "pt",
        **run,
        "ss_network_module": "lycoris.kohya" if lycoris else "networks.lora",
        "ss_network_dim": _common([_rank(tensors) for tensors in layers.values()]),
        "ss_network_alpha": _common([float(t["alpha"]) for t in layers.values() if "alpha" in t]),
        "ss_network_args": json.dumps(arguments),
        "ss_base_model_version": version,
        "ss_v2": str(names.is_v2),
        "modelspec.sai_model_spec": "1.0.1",
        "modelspec.architecture": f"{family.spec(network, prediction).architecture}/lora",
        "modelspec.implementation": "https://github.com/Stability-AI/generative-models",
        HASH: NO_HASH,
    }


def _rank(tensors: Mapping[str, object]) -> int:
    found = next((tensors[name] for name in RANKS if name in tensors), None)
    return int(found.shape[0]) if found is not None else 0  # type: ignore[attr-defined]


def _common(numbers: list[int] | list[float]) -> str:
    """One number where all layers share it, else what kohya writes for several."""
    return f"{numbers[0]:g}" if len(set(numbers)) == 1 else "Dynamic"
