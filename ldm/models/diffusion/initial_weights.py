"""Which weights a model starts from: each part's own, a whole checkpoint's, or none because that was asked for."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ldm.adapters.switching import parameters_of_adapters
from ldm.admission import admitted
from ldm.errors import Fault
from ldm.families.edm_marks import is_edm
from ldm.families.part_names import text_encoders
from ldm.families.record import Variant
from ldm.families.registry import variant_of
from ldm.families.whole_checkpoint import VAE, Description, WholeCheckpoint, open_checkpoint
from ldm.files.hub import require_hub_id
from ldm.files.load import fit, load_part
from ldm.files.sniff import sniff
from ldm.files.state import State
from ldm.files.weights_location import find_source, find_weights
from ldm.keys.split_checkpoint import COND_STAGE, UNET, Parts
from ldm.models.diffusion.first_stage_latents import require_same_latents
from ldm.models.diffusion.part import Part, nameless_parts, require_named
from ldm.models.model_parts import PartSize, TrainingPlan
from ldm.modules.meta_init import give_memory
from ldm.training.groups import Decision, named_weights
from ldm.util import Recipe

log = logging.getLogger(__name__)
EMA_COUNTERS = ("decay", "num_updates")


def side_unit(parts: Mapping[str, Part]) -> int:
    """Pixels that sides have to be multiples of: a latent's times a patch's; 1 for a network that fills sides up."""
    if not getattr(admitted(parts["network"].recipe["target"]), "cuts_patches", False):
        return 1
    built: list[Any] = [part.by_shape() for name, part in parts.items() if name in ("network", "first stage")]
    return math.prod(int(getattr(part, "multiple", 1) * getattr(part, "downsampling", 1)) for part in built)


def without_loss(recipe: Recipe) -> Recipe:
    """An autoencoder's recipe for use as a part, which has nothing to train it by."""
    params = {name: value for name, value in (recipe.get("params") or {}).items() if name != "lossconfig"}
    return {**recipe, "params": params}


@dataclass(frozen=True)
class Start:
    """Where the weights of a new run come from.

    ckpt_path  a file, a folder or a hub id for all parts that name none of their own; None without one
    ignore      beginnings of keys (`model.diffusion_model.input_blocks.0.`) that are neither loaded nor asked for
    averaged    take the checkpoint's EMA weights for the denoising network
    unet_only   take nothing but the denoising network from it
    prediction  what the model will be trained to predict
    edm         whether on EDM's levels
    latents     (scale, shift) of a model of latents
    """

    ckpt_path: str | None = None
    ignore: Sequence[str] = ()
    averaged: bool = False
    unet_only: bool = False
    prediction: str = "eps"
    edm: bool = False
    latents: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, model: Any) -> "Start":
        """What the settings of a `ldm.models.diffusion.ddpm.DDPM` say."""
        objective = model.objective
        return cls(
            ckpt_path=model.ckpt_path,
            ignore=model.ignore_keys,
            averaged=model.init_from_ema,
            unet_only=model.load_only_unet,
            prediction=objective.prediction,
            edm=is_edm(objective.path.scheduler_settings()),
            latents=(model.scale_factor, model.shift_factor) if hasattr(model, "scale_factor") else None,
        )

    def fed(self, parts: Mapping[str, Part], split: Parts) -> Iterator[tuple[str, State]]:
        """The parts that the checkpoint fills, each with its tensors; a part's own path wins over the checkpoint."""
        for name, part in parts.items():
            state = part.among(split)
            asked = part.prefix == UNET or not self.unet_only
            if asked and not part.own_path and len(state) > len(self.left_out(part, state)):
                yield name, state

    def left_out(self, part: Part, state: State) -> list[str]:
        """The keys of a part's tensors that are to be ignored."""
        return [key for key in state if (part.prefix + key).startswith(tuple(self.ignore))] if self.ignore else []


def require_weights(parts: Mapping[str, Part], start: Start, files: bool = True) -> None:
    """Raise `Fault` before anything is built: MOD06 for parts that would start from noise without having been asked to;
    if `files` are looked at, MOD01, MOD02 or MOD05 for what cannot be read, MOD03 for a checkpoint of another model or
    of which no part takes anything, or with other latents than the model's, and what `require_files` of a part says."""
    unnamed = require_named(parts, start.ckpt_path)
    if files:
        _require_readable(parts, start, unnamed)


def _require_readable(parts: Mapping[str, Part], start: Start, unnamed: Sequence[str]) -> None:
    for own in filter(None, (part.own_path for part in parts.values())):
        if (path := find_weights(own)).is_file():
            sniff(path)
    checkpoint = open_checkpoint(start.ckpt_path) if start.ckpt_path else None
    _require_latents(parts.get("first stage"), checkpoint, start.latents)
    fed = dict(start.fed(parts, checkpoint.outline)) if checkpoint else {}
    _require_files(parts.values())
    split = checkpoint.outline if checkpoint and not start.unet_only else Parts({}, {}, {}, {}, {})
    for name, part in parts.items():
        part.require_encoders(split, checkpoint.given if checkpoint else "what the config names")
        if part.hub_id and name not in fed:
            require_hub_id(part.hub_id)
    if checkpoint:
        description = checkpoint.describe()
        if empty := [name for name in unnamed if name not in fed]:
            raise nameless_parts(empty, parts, f"{checkpoint.given} holds: {', '.join(description.parts)}")
        if not fed:
            raise _useless(parts, checkpoint)
        for name, state in fed.items():
            _require_fit(checkpoint, parts[name], state, start.left_out(parts[name], state))


def _require_latents(
    part: Part | None, checkpoint: WholeCheckpoint | None, latents: tuple[Tensor, Tensor] | None
) -> None:
    """Raise `Fault` MOD03 for a first stage whose folder says that its latents are not those of the model."""
    if part is None or latents is None:
        return
    if part.own_path:
        require_same_latents(find_source(part.own_path, VAE), part.own_path, *latents, apart=True)
    elif checkpoint and VAE in checkpoint.sources:
        require_same_latents(checkpoint.sources[VAE], checkpoint.given, *latents, apart=False)


def _require_files(parts: Iterable[Part]) -> None:
    """Raise the `Fault` of a part whose class wants files besides weights and says so, as `require_files(params)`."""
    for part in parts:
        if require := getattr(admitted(part.recipe["target"]), "require_files", None):
            require(part.params)


def start_networks(parts: Mapping[str, Part], start: Start) -> dict[str, nn.Module]:
    """Build the parts with the weights that a new run starts from.

    Raises `Fault` MOD01 to MOD05 for weights that cannot be used and MOD06 for parts that neither get any nor say
    `from_scratch: true`.
    """
    checkpoint = open_checkpoint(start.ckpt_path) if start.ckpt_path else None
    fed = dict(start.fed(parts, checkpoint.outline)) if checkpoint else {}
    whole = [name for name, state in fed.items() if not start.left_out(parts[name], state)]
    networks = {name: part.build_on_meta() if name in whole else part.build() for name, part in parts.items()}
    for name in networks.keys() - fed.keys():
        if networks[name].loaded_from:
            log.info("weights  %s from %s", parts[name].called(name), networks[name].loaded_from)
    if checkpoint and fed:
        _fill(checkpoint, parts, networks, start)
    if scratch := [name for name in networks.keys() - fed.keys() if networks[name].from_scratch]:
        called = sorted(parts[name].called(name) for name in scratch)
        log.info("weights  %s from scratch, as the config says", ", ".join(called))
    nameless = [name for name, network in networks.items() if not (network.loaded_from or network.from_scratch)]
    if nameless:
        raise nameless_parts(nameless, parts)
    return networks


def restored_networks(parts: Mapping[str, Part]) -> dict[str, nn.Module]:
    """Build the parts for a resumed run, which restores every one of their tensors: they hold nothing yet."""
    networks = {name: part.build_on_meta() for name, part in parts.items()}
    for network in networks.values():
        give_memory(network)
    return networks


def planned(
    parts: Mapping[str, Part],
    decide: Callable[[Mapping[str, nn.Module]], Decision],
    beside: Mapping[str, nn.Module],
    by_shape: bool,
) -> TrainingPlan:
    """The parts, and what of them trains; nothing is read and no memory taken.

    decide    lets train what trains of networks by the first words of their parameters' names in rules
    beside    what else trains, by the same words
    by_shape  whether names and shapes of networks are all that `decide` looks at
    """
    built = {name: part.by_shape() if by_shape else part.build_on_meta() for name, part in parts.items()}
    networks = {name: network.requires_grad_(parts[name].trainable is not None) for name, network in built.items()}
    trainable = {part.trainable: networks[name] for name, part in parts.items() if part.trainable is not None}
    groups = decide(trainable).groups(named_weights({**trainable, **beside}))
    sizes = [PartSize.of(parts[name].called(name), network) for name, network in networks.items()]
    return TrainingPlan(sizes, groups, _beside_adapters(trainable))


def _beside_adapters(networks: Mapping[str, nn.Module]) -> list[str]:
    """The parameters that train and lie in no adapter."""
    in_adapters = set[int]().union(*map(parameters_of_adapters, networks.values()))
    weights = named_weights(networks).items()
    return [name for name, weight in weights if weight.requires_grad and id(weight) not in in_adapters]


def _fill(checkpoint: WholeCheckpoint, parts: Mapping[str, Part], networks: Mapping[str, Any], start: Start) -> None:
    """Load what the checkpoint holds, and hash its file meanwhile: that reads all of it, too."""
    description = checkpoint.describe()
    with ThreadPoolExecutor(max_workers=1) as beside:
        hashed = beside.submit(checkpoint.sha256)
        _warn_of_another_prediction(description, start)
        _load(checkpoint, parts, networks, start)
    log.info("weights  %s", description.line(hashed.result()))


def _warn_of_another_prediction(description: Description, start: Start) -> None:
    if description.against:
        given, says = description.path, description.prediction
        log.warning("%s says that it predicts %s, but %s", given, says, description.against)
    if description.prediction not in (None, start.prediction):
        log.warning(
            "the network was trained to predict %s; this run trains it to predict %s (model.params.parameterization)",
            *(description.prediction, start.prediction),
        )
    if description.prediction and description.edm != start.edm:
        log.warning(
            "the network was trained on %s; this run trains it on %s (model.params.objective.params.path)",
            *(("EDM's levels", "other levels") if description.edm else ("other levels", "EDM's levels")),
        )


def _load(checkpoint: WholeCheckpoint, parts: Mapping[str, Part], networks: Mapping[str, Any], start: Start) -> None:
    split = checkpoint.read()
    for name, state in start.fed(parts, split):
        if start.averaged and parts[name].prefix == UNET:
            state = averaged_unet(state, split.ema, networks[name], checkpoint.given)
        elif parts[name].prefix == UNET and len(split.ema) > len(EMA_COUNTERS):
            log.info("note: the raw weights are taken; model.params.init_from_ema=true takes the averaged ones")
        load_part(networks[name], state, checkpoint.given, start.left_out(parts[name], state))
        for encoder, path in parts[name].own_encoders.items():
            log.info("weights  text encoder %s from %s", encoder, path)
        networks[name].loaded_from = checkpoint.given
    if left := [key for key in split.rest if "." in key]:
        log.info("note: %d tensors of no part were left out, first %s", len(left), sorted(left)[0])


def averaged_unet(raw: State, ema: State, network: Any, source: str) -> State:
    """The averaged weights where a checkpoint holds them (under names without dots), the raw ones for the rest.

    Raises `Fault` MOD03 if it holds none.
    """
    names = network.to_disk(network.from_disk(raw))
    undotted = {name: f"diffusion_model.{name}".replace(".", "") for name in names}
    averaged = {name: ema[key] for name, key in undotted.items() if key in ema}
    if not averaged:
        raise Fault(
            "MOD03",
            f"{source} holds no averaged (EMA) weights",
            where="model.params.init_from_ema",
            fix="init_from_ema=false starts from its raw weights",
        )
    if len(averaged) < len(names):
        log.warning(
            "%d of %d EMA weights are not in %s: raw ones there", len(names) - len(averaged), len(names), source
        )
    return names | averaged


def _require_fit(checkpoint: WholeCheckpoint, part: Part, state: State, ignore: Sequence[str]) -> None:
    network = part.build_on_meta()
    _, comparison = fit(network, state, ignore)
    if comparison.fits:
        return
    ours, theirs, fix = _kinds(part, network, state)
    raise Fault(
        "MOD03",
        f"{checkpoint.given} does not fit this model",
        where=part.setting,
        why=f"{'it holds ' + theirs if theirs else 'it is no model that is known here'}; "
        f"{'the config builds ' + ours if ours else 'the config builds something else'}\n{comparison.render()}",
        fix=fix or "use the config that the file was made with, or a checkpoint of the model that the config builds",
    )


def _kinds(part: Part, network: Any, state: State) -> tuple[str, str, str]:
    """What the config builds, what the checkpoint holds, and what to do about it; empty where it is not known."""
    own = network.to_disk(dict(network.state_dict()))
    if part.prefix == COND_STAGE:
        return " and ".join(text_encoders(own)), " and ".join(text_encoders(state)), ""
    ours, theirs = variant_of(own), variant_of(state)
    fixes = [f"use {theirs.config}"] if theirs and theirs.config else []
    fixes += [f"a checkpoint of {ours.title}"] if ours else []
    return _in_words(ours), _in_words(theirs), ", or ".join(fixes)


def _in_words(variant: Variant | None) -> str:
    return f"{variant.title} ({variant.facts})" if variant else ""


def _useless(parts: Mapping[str, Part], checkpoint: WholeCheckpoint) -> Fault:
    """MOD03: whoever names a file means it to be used."""
    own = [f"{part.setting}.params.ckpt_path" for part in parts.values() if part.own_path]
    return Fault(
        "MOD03",
        f"{checkpoint.given} gives this model nothing",
        where="model.params.ckpt_path",
        why=f"it holds: {', '.join(checkpoint.describe().parts) or 'no part of a model that is known here'}"
        + (f"; weights of their own are named by {', '.join(own)}" if own else ""),
        fix="name a checkpoint that holds the denoising network"
        + (f", or take the weights from it: {own[0]}=null" if own else ""),
    )
