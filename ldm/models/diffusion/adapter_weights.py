"""What adapters of a diffusion model learned, out of a checkpoint's tensors and ready for files."""

from collections.abc import Mapping

from torch import Tensor, nn

from ldm.adapters.adapter_set import AdapterSet
from ldm.adapters.layer import adapters_in
from ldm.adapters.token_embeddings import token_tables
from ldm.diffusion.prediction_names import PredictionType
from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.files.load import OnDisk
from ldm.files.state import State
from ldm.models.diffusion.ddpm import DDPM
from ldm.training.adapters import CHILD, is_of_adapter
from ldm.training.groups import named_layers


def with_adapters(model: DDPM, state: Mapping[str, Tensor], source: str) -> dict[str, nn.Module]:
    """The networks of a model with an `adapter_config`, without memory but for what was added to them.

    state   of a checkpoint, with raw or averaged numbers
    Raises `Fault` MOD03 where it does not hold all that was added.
    """
    parts = {part.trainable: part for part in model.part_recipes().values() if part.trainable is not None}
    networks = {name: part.build_on_meta() for name, part in parts.items()}
    model.decide_training(networks)
    for name, network in networks.items():
        prefix = parts[name].prefix
        own = {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
        adapters = {key: value for key, value in own.items() if is_of_adapter(key)}
        expected = {key for key in network.state_dict() if is_of_adapter(key)}
        if adapters.keys() != expected:
            why = f"it holds {len(adapters)} of the {len(expected)} tensors of adapters of its {name}"
            raise Fault("MOD03", f"{source} does not fit the config of its run", why=why)
        network.load_state_dict(adapters, strict=False, assign=True)
    return networks


def trained_adapters(
    networks: Mapping[str, nn.Module], source: str, prediction: PredictionType | None = None
) -> AdapterSet:
    """Those of networks as `with_adapters` gives them.

    Raises `Fault` MOD03 for adapters that no program reads: of kinds or families of one's own, or of other layers.
    """
    layers = {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}
    unet = base_state(networks["unet"])
    family = family_of(unet, source)
    if len(layers) < count_of_layers(networks) or family is None or family.adapters is None:
        what = f"the adapters of {source} are of a kind or a family that no other program reads"
        raise Fault("MOD03", what, fix="to=ldm merge=true for whole weights")
    return AdapterSet(layers, networks, family, unet, prediction)


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The whole state of a model whose adapters have become part of their layers' weights, in the dtype of these."""
    state = {name: tensor for name, tensor in model.state_dict().items() if not is_of_adapter(name)}
    for name, adapter in adapters_in(dict(model.named_modules())):
        weight = state[f"{name}.weight"]
        state[f"{name}.weight"] = adapter.merged(weight).detach().to(weight.dtype)
    return state


def base_state(network: nn.Module) -> State:
    """A network's tensors without adapters, under the names that it has on disk."""
    own = {name: tensor for name, tensor in network.state_dict().items() if not is_of_adapter(name)}
    return network.to_disk(own) if isinstance(network, OnDisk) else own


def count_of_layers(networks: Mapping[str, nn.Module]) -> int:
    """How many layers have an adapter, of whatever kind; tables of tokens with added words are not among them."""
    added = (name for network in networks.values() for name, _ in network.named_modules() if name.endswith(f".{CHILD}"))
    return sum(1 for _ in added) - sum(bool(table.added()) for table in token_tables(networks))
