"""The record of a family of models: all that reading, building, naming and exporting one asks of it.

No code outside `ldm.families` compares the name of a family; it asks the record. A family of one's own is a value of
`Family`, see `ldm.families.registry`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.diffusion.objective import Objective
from ldm.diffusion.prediction_names import PredictionType
from ldm.diffusion.rectified_flow import Spacing
from ldm.families.facts import Facts, Unconditional
from ldm.families.infer_config import vae_config
from ldm.families.path_marks import folder_of_path
from ldm.families.text_encoders import Encoder
from ldm.files.state import State
from ldm.util import Recipe


@dataclass(frozen=True)
class Spec:
    """What ModelSpec calls a kind of model, and the side in pixels of the pictures that it makes.

    license  under which its weights are published and those trained from them are, too; empty where none is carried on
    """

    architecture: str
    resolution: int
    license: str = ""


@dataclass(frozen=True, eq=False)
class Variant:
    """A published kind of model within a family.

    title          as people write it
    facts          by what it is recognised, for messages
    matches        whether the tensors of a network are those of this variant at its published size, under CompVis' or
                   the library's names and without prefix
    in_channels    of the network's input, by which networks of any other size are distinguished
    spec           None for a variant of which files are recognised and not converted
    specs          by prediction, where that says more than the tensors
    config         the shipped config that builds it, empty where there is none
    inpaints       the network's input holds a mask and what is around it
    like           whether a network of any size is built like it, where channels do not distinguish variants
    """

    title: str
    facts: str
    matches: Callable[[State], bool]
    in_channels: int = 4
    spec: Spec | None = None
    specs: Mapping[PredictionType, Spec] = field(default_factory=dict)
    config: str = ""
    inpaints: bool = False
    like: Callable[[State], bool] = lambda network: True


@dataclass(frozen=True, eq=False)
class Denoiser:
    """The network that denoises: how it is described and what it is called in files.

    recognises    whether tensors are those of such a network, of any size and family
    target        import path of the adapter `network(x_t, t, cond)` that takes `settings` as its parameters
    settings      of a network's tensors, (state) -> parameters
    in_channels   of its input, (state) -> number
    is_public     whether a network has the published widths, so that what shapes do not show (heads) is known
    title         what such a network is called, for people
    library       class of `diffusers` in a pipeline's folder, empty where no pipeline holds it
    folder        in a pipeline
    to_library    tensors under the file's names -> under the library's, of which the second argument has all names
    from_library  the way back
    """

    recognises: Callable[[State], bool]
    target: str
    settings: Callable[[State], dict[str, Any]]
    in_channels: Callable[[State], int]
    is_public: Callable[[State], bool]
    library: str = ""
    folder: str = ""
    to_library: Callable[[State, State], State] | None = None
    from_library: Callable[[State], State] | None = None
    title: str = "UNet"


@dataclass(frozen=True, eq=False)
class Latent:
    """The latents of a family's autoencoder: what the network sees is `scale * (z - shift)`.

    scale         of latents to about unit variance
    shift         of latents to about zero mean
    sample_size   side of the pictures that the autoencoder was trained on, in pixels
    upcasts       the published autoencoder overflows in float16
    architecture  ModelSpec's name for the autoencoder alone
    remark        what to know of a file of the autoencoder alone, for people
    channels      of a latent
    alike         whose autoencoder has the same names and shapes and other latents, so that no file of it alone says
                  which of both it is; empty where there is none
    """

    scale: float
    sample_size: int
    architecture: str
    upcasts: bool = False
    remark: str = ""
    shift: float = 0.0
    channels: int = 4
    alike: str = ""

    def config(self, first_stage: State) -> dict[str, Any]:
        """Arguments of `diffusers.AutoencoderKL` for an autoencoder under CompVis' names."""
        found = vae_config(first_stage, self.scale, self.sample_size, self.upcasts)
        return found | ({"shift_factor": self.shift} if self.shift else {})


@dataclass(frozen=True, eq=False)
class InferenceYaml:
    """The YAML beside a single file, for readers that do not know the family by its tensors.

    predictions  of which a file needs it, since readers take all others for what they are; None: every file does
    encoder      recipe of the text encoder in CompVis' code
    network      parameters of CompVis' `UNetModel` that are the family's own
    """

    predictions: tuple[PredictionType, ...] | None
    encoder: Recipe
    network: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Guess:
    """What a lone file's network probably predicts, for want of any word about it.

    usual     what the family's models usually predict
    certain   whether all of them do
    measured  (whole state) -> the prediction by the network's numbers and the reason in words; None: unknown
    shift, spacing  of the levels that sampling visits, for networks that predict a flow (`RectifiedFlow`)
    """

    usual: PredictionType = "epsilon"
    certain: bool = True
    measured: Callable[[State], tuple[PredictionType, str] | None] | None = None
    shift: float = 1.0
    spacing: Spacing = "trailing"


OnPath = Callable[[Facts], Mapping[str, Any] | None]


@dataclass(frozen=True, eq=False)
class PipelineLayout:
    """A folder as diffusers writes it.

    name       of the class without `Pipeline`, as `StableDiffusion`; inpainting variants add `Inpaint`
    scheduler  its settings besides those of `Facts.scheduler`, `_class_name` first
    on_path    (facts) -> all settings of a scheduler for a path other than DDPM's; None for that
    entries    (what stands for no caption) -> further entries of `model_index.json`
    """

    name: str
    scheduler: Mapping[str, Any]
    entries: Callable[[Unconditional | None], Mapping[str, Any]]
    on_path: OnPath = folder_of_path


@dataclass(frozen=True, eq=False)
class AdapterNames:
    """What files of adapters call a family and its layers, in kohya's words.

    version       of the base, by which programs offer an adapter for it
    version_of_v  of bases that predict v, where it is another
    encoders      prefix of each text encoder's layers
    compvis       the network's layers have single files' names, where readers expect these, else diffusers'
    is_v2         the flag by which Stable Diffusion 2 is known
    network       the first word of diffusers' names of the network's layers
    """

    version: str
    encoders: tuple[str, ...]
    version_of_v: str = ""
    compvis: bool = False
    is_v2: bool = False
    network: str = "unet"


Conditioner = Callable[[State, Sequence[Mapping[str, Any]], Unconditional | None], Recipe]
"""(tensors of the text encoders without prefix, settings of each `Encoder` found, what stands for no caption) -> the
recipe of what turns captions into a `Conditioning`."""


def no_marks(facts: Facts) -> State:
    """Single files of most families carry no marker tensors."""
    return {}


@dataclass(frozen=True, eq=False)
class Family:
    """A family of diffusion models.

    name           short, unique: `sdxl`
    title          as people write it
    variants       the usual one first
    built_like     whether the tensors of a network of any size are built like the family's (see `Variant.matches`)
    encoders       the text encoders that files and pipelines of the family hold
    conditioner    how their outputs join
    objective      path and prediction that a model was trained with; raises `Fault` MOD03 where `Facts` do not say
    unconditional  what its published models were trained with
    marks          empty tensors in single files by which readers know how the network was trained
    remarks        by prediction, what to know of a single file, for people
    inference      None where readers need no YAML
    pipeline       None where diffusers has none
    adapters       None where no program reads adapters for it
    """

    name: str
    title: str
    variants: tuple[Variant, ...]
    built_like: Callable[[State], bool]
    network: Denoiser
    latent: Latent
    encoders: tuple[Encoder, ...]
    conditioner: Conditioner
    objective: Callable[[Facts], Objective]
    unconditional: Unconditional = "empty caption"
    guess: Guess = field(default_factory=Guess)
    marks: Callable[[Facts], State] = no_marks
    remarks: Mapping[PredictionType, str] = field(default_factory=dict)
    inference: InferenceYaml | None = None
    pipeline: PipelineLayout | None = None
    adapters: AdapterNames | None = None

    def variant(self, network: State) -> Variant:
        """The published variant that a network is, else one of its channels that it is built like, else the first."""
        converted = [variant for variant in self.variants if variant.spec]
        channels = self.network.in_channels(network)
        alike = (v for v in converted if v.in_channels == channels and v.like(network))
        return next((v for v in converted if v.matches(network)), next(alike, self.variants[0]))

    def spec(self, network: State, prediction: PredictionType | None) -> Spec:
        """ModelSpec's name and the side of the pictures for a network that predicts `prediction`."""
        variant = self.variant(network)
        spec = variant.specs.get(prediction, variant.spec) if prediction else variant.spec
        assert spec is not None
        return spec

    def needs_yaml(self, facts: Facts) -> bool:
        """Whether readers of a single file would have to guess without a YAML beside it."""
        if self.inference is None or folder_of_path(facts):  # the YAML has no word for another path than DDPM's
            return False
        return self.inference.predictions is None or facts.prediction in self.inference.predictions
