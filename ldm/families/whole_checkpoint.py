"""A whole checkpoint, wherever and however it lies on disk: what it is, and its tensors by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ldm.diffusion.prediction import Prediction
from ldm.diffusion.prediction_names import prediction_named
from ldm.families.edm_marks import edm_of_marks, is_edm
from ldm.families.part_names import named_parts
from ldm.families.path_marks import path_of_folder
from ldm.families.record import Denoiser, Variant
from ldm.families.registry import known_families, variant_of
from ldm.files.digest import sha256
from ldm.files.rank_shards import RankShards
from ldm.files.read import read_outline
from ldm.files.sniff import readable_size
from ldm.files.state import State
from ldm.files.weights_location import ComponentFiles, find_source, find_weights, read_scheduler
from ldm.keys.layout import refuse_scaled
from ldm.keys.split_checkpoint import V_MARKER, Parts, split_parts

Layout = Literal["ldm", "diffusers", "one part"]

VAE = "vae"
STORED_PREDICTION = ("modelspec.prediction_type", "modelspec.predict_key")


@dataclass(frozen=True)
class Description:
    """What a checkpoint holds, by its names and header, without reading its weights.

    variant     None for a network that is none of the public ones
    prediction  what the UNet was trained to predict, None where nothing in the checkpoint says so
    origin      the training run that wrote it, empty for a published model
    edm         whether it was trained on EDM's levels
    against     what it says of itself that does not agree, for people
    """

    path: str
    size: int
    layout: Layout
    variant: Variant | None
    prediction: Prediction | None
    parts: tuple[str, ...]
    origin: str = ""
    edm: bool = False
    against: str = ""

    def line(self, sha256: str = "") -> str:
        """`models/a.ckpt (4.3 GB, sha256 fe4efff1e1, Stable Diffusion 1.x, ldm layout: UNet, VAE, CLIP ViT-L, EMA)`."""
        facts = [readable_size(self.size), f"sha256 {sha256[:10]}" if sha256 else "", self.origin]
        levels = " on EDM's levels" if self.edm else ""
        facts += [self.variant.title if self.variant else ""]
        facts += [f"predicts {self.prediction}{levels}" if self.prediction else ""]
        inside = ", ".join(self.parts) or "no part of a diffusion model"
        layout = self.layout if self.layout == "one part" else f"{self.layout} layout"
        return f"{self.path} ({', '.join(fact for fact in facts if fact)}, {layout}: {inside})"


@dataclass(frozen=True)
class WholeCheckpoint:
    """The files of a checkpoint; `given` is what the person wrote."""

    given: str
    path: Path

    @cached_property
    def sources(self) -> Mapping[str, ComponentFiles]:
        """{component: its files}; a single file is the component `""`."""
        if not self.path.is_dir():
            return {"": ComponentFiles((self.path,), {})}
        folders = [name for name in component_folders() if (self.path / name).is_dir()]
        return {name: find_source(self.path, name) for name in folders} or {"": find_source(self.path, "")}

    @cached_property
    def outline(self) -> Parts:
        """All tensors by part, on the meta device."""
        return self._parts({name: source.outline() for name, source in self.sources.items()})

    def read(self) -> Parts:
        """All tensors by part, as views of the files. Raises `Fault` MOD01, MOD02 or MOD05."""
        return self._parts({name: source.read() for name, source in self.sources.items()})

    def describe(self) -> Description:
        """Recognise what is here. Raises `Fault` as `read` does."""
        files = [file for source in self.sources.values() for file in source.files]
        parts, facts = self.outline, self._facts()
        beside = RankShards.of(facts, self.path)
        count = sum(bool(part) for part in (parts.unet, parts.first_stage, parts.cond_stage))
        prediction, edm = self._trained(facts)
        disagrees = V_MARKER in self.outline.rest and not edm and prediction != "v"
        layout: Layout = "diffusers" if len(self.sources) > 1 else "ldm" if count > 1 else "one part"
        return Description(
            self.given,
            sum(file.stat().st_size for file in files) + (beside.size if beside else 0),
            layout,
            variant_of(parts.unet),
            prediction,
            named_parts(parts),
            _origin(facts),
            edm,
            f"its tensor {V_MARKER} says v" if disagrees else "",
        )

    def sha256(self) -> str:
        """Of the file, or of the largest one of a folder: what tools call its hash. Reads all of it."""
        files = [file for source in self.sources.values() for file in source.files]
        return sha256(max(files, key=lambda file: file.stat().st_size))

    def _parts(self, states: Mapping[str, State]) -> Parts:
        for state in states.values():
            refuse_scaled(state, self.given)
        if "" in states:
            return split_parts(states[""])
        network = next((states[name] for name in states if name in network_folders()), {})
        return Parts(network, states.get(VAE, {}), _text(states), {}, {})

    def _facts(self) -> Mapping[str, Any]:
        if "" not in self.sources:
            return read_scheduler(self.path)
        return read_outline(self.sources[""].files[0]).facts

    def _trained(self, facts: Mapping[str, Any]) -> tuple[Prediction | None, bool]:
        """What the network predicts, and whether on EDM's levels."""
        if edm := edm_of_marks(self.outline.rest, self.given):
            return prediction_named(edm.prediction), True
        if "" not in self.sources and (other := path_of_folder(facts)):
            return prediction_named(other.prediction), is_edm(other.scheduler)
        stored = [facts.get(key) for key in ("prediction_type", *STORED_PREDICTION)]
        marked: Prediction | None = "v" if V_MARKER in self.outline.rest else None
        return next((prediction for word in stored if (prediction := prediction_named(word))), marked), False


def open_checkpoint(given: str | Path) -> WholeCheckpoint:
    """The checkpoint at a path or of a hub id. Raises `Fault` MOD01 if there is none."""
    return WholeCheckpoint(str(given), find_weights(given))


def network_folders() -> dict[str, Denoiser]:
    """{folder of a denoising network in a pipeline: one of the networks that lie there}."""
    return {family.network.folder: family.network for family in known_families() if family.network.from_library}


def component_folders() -> list[str]:
    """All folders of weights that pipelines of known families have."""
    text = [encoder.folder for family in known_families() for encoder in family.encoders]
    return list(dict.fromkeys([*network_folders(), VAE, *text]))


def _text(states: Mapping[str, State]) -> State:
    """The text encoders of a pipeline's folders: one under its own names, several under those of a single file."""
    there = {encoder.folder for family in known_families() for encoder in family.encoders} & states.keys()
    fitting = [family for family in known_families() if there <= {encoder.folder for encoder in family.encoders}]
    fitting = [family for family in fitting if family.network.folder in states] or fitting
    if not fitting or len(fitting[0].encoders) < 2:
        return states.get("text_encoder", {})
    found: State = {}
    for encoder in fitting[0].encoders:
        found |= encoder.to_file(states.get(encoder.folder, {}))
    return split_parts(found).cond_stage


def _origin(facts: Mapping[str, Any]) -> str:
    if "lun" in facts:
        return f"a run of this program, step {facts['lun'].get('position', {}).get('step', facts.get('global_step'))}"
    if "optimizer_states" in facts or "pytorch-lightning_version" in facts:
        return f"a training checkpoint, step {facts.get('global_step', 'unknown')}"
    return ""
