"""Whatever names a single file uses, as CompVis has them."""

from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.mmdit import mmdit_from_library
from ldm.keys.split_checkpoint import COND_STAGE, CONDITIONER, EMA, FIRST_STAGE, TEXT, UNET, below
from ldm.keys.strangers import looks_like
from ldm.keys.text_encoders import BELOW
from ldm.keys.unet import compvis_unet_names
from ldm.keys.vae import compvis_autoencoder_names, is_attention_matrix, old_autoencoder_names

SCALES = ("scaled_fp8", ".scale_weight", ".weight_scale", ".weight.absmax", ".weight.quant_map")
OBJECTIVE = "objective."  # what a run's objective has learned, such as weights of noise levels
TRAINING_ONLY = ("loss.",)  # an autoencoder's discriminator and perceptual network


def compvis_names(state: State, source: str) -> State:
    """The tensors of a file under the names of a whole CompVis checkpoint.

    It may be one already, or a UNet or an autoencoder alone, as CompVis or diffusers name it.
    Raises `Fault` MOD03 for anything else, and for weights in 8 bits that have scales beside them.
    """
    refuse_scaled(state, source)
    if any(key.startswith((UNET, FIRST_STAGE, *TEXT)) for key in state):
        networks = {key: value for key, value in state.items() if not key.startswith(OBJECTIVE)}
        return {_below_text_model(key): value for key, value in networks.items()}
    for prefix, names in (("diffusion_model.", UNET), ("vae.", FIRST_STAGE)):
        if part := below(state, prefix):
            return _below(names, part)
    for marker, prefix, rename in _ALONE:
        if marker in state:
            return _below(prefix, rename(state))
    raise Fault(
        "MOD03",
        f"{source} is no Stable Diffusion that is known here",
        why=looks_like(state) or f"it holds {len(state)} tensors such as {', '.join(sorted(state)[:3])}",
        fix="name a whole model of Stable Diffusion, its denoising network or its autoencoder",
    )


def refuse_scaled(keys: Iterable[str], source: str) -> None:
    """Raise `Fault` MOD03 for weights that are to be multiplied by scales which lie beside them, in 8 bits or fewer."""
    if scales := [key for key in keys if key.endswith(SCALES)]:
        raise Fault(
            "MOD03",
            f"{source} holds weights in 8 bits or fewer, with scales of their own",
            why=f"{len(scales)} scales, first {sorted(scales)[0]}; without them the numbers mean something else",
            fix="take the file in fp16, bf16 or fp32; one in plain fp8 is read, too",
        )


def unet_to_compvis(state: State) -> State:
    """diffusers' UNet under CompVis' names, without a prefix."""
    names = compvis_unet_names(state)
    return {names.get(key, key): value for key, value in state.items()}


def unet_to_diffusers(state: State, keys: Mapping[str, Tensor]) -> State:
    """CompVis' UNet under diffusers' names; `keys` are those of diffusers' network of the same shape."""
    back = {name: key for key, name in compvis_unet_names(keys).items()}
    return {back.get(key, key): value for key, value in state.items()}


def autoencoder_to_compvis(state: State) -> State:
    """diffusers' autoencoder, of any year, under CompVis' names; matrices of attention become convolutions."""
    aliases = old_autoencoder_names(_modern_keys(state))
    modern = {aliases.get(key, key): value for key, value in state.items()}
    names = compvis_autoencoder_names(modern)
    return {
        names[key]: value[:, :, None, None] if is_attention_matrix(key) and value.ndim == 2 else value
        for key, value in modern.items()
    }


def autoencoder_to_diffusers(state: State, keys: Mapping[str, Tensor]) -> State:
    """CompVis' autoencoder under diffusers' names; `keys` are those of diffusers' network of the same shape."""
    back = {name: key for key, name in compvis_autoencoder_names(keys).items()}
    named = {back.get(key, key): value for key, value in state.items()}
    return {
        key: value[:, :, 0, 0] if is_attention_matrix(key) and value.ndim == 4 else value
        for key, value in named.items()
    }


def _below_text_model(key: str) -> str:
    """Put in what writers on transformers 5 leave out, and what no reader of single files can do without."""
    for prefix in (f"{COND_STAGE}transformer.", f"{CONDITIONER}embedders.0.transformer."):
        if key.startswith(tuple(prefix + part for part in ("embeddings.", "encoder.", "final_layer_norm."))):
            return f"{prefix}{BELOW}{key.removeprefix(prefix)}"
    return key


def _modern_keys(state: State) -> list[str]:
    """The keys of attention as they are called today, so that the table of old ones can be made from them."""
    sides = {key.split(".")[0] for key in state if ".mid_block.attentions.0." in key}
    names = ("to_q", "to_k", "to_v", "to_out.0")
    places = [f"{side}.mid_block.attentions.0.{name}" for side in sorted(sides) for name in names]
    return [f"{place}.{kind}" for place in places for kind in ("weight", "bias")]


def _compvis_autoencoder(state: State) -> State:
    return {key: value for key, value in state.items() if not key.startswith((*TRAINING_ONLY, EMA))}


def _below(prefix: str, state: State) -> State:
    return {prefix + key: value for key, value in state.items()}


_ALONE: list[tuple[str, str, Callable[[State], State]]] = [
    ("input_blocks.0.0.weight", UNET, dict),
    ("time_embedding.linear_1.weight", UNET, unet_to_compvis),
    ("x_embedder.proj.weight", UNET, dict),
    ("pos_embed.proj.weight", UNET, mmdit_from_library),
    ("encoder.down.0.block.0.conv1.weight", FIRST_STAGE, _compvis_autoencoder),
    ("encoder.down_blocks.0.resnets.0.conv1.weight", FIRST_STAGE, autoencoder_to_compvis),
]
