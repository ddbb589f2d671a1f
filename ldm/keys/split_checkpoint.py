"""A whole Stable Diffusion checkpoint taken apart into the networks that it holds."""

from dataclasses import dataclass

from ldm.files.state import State

UNET = "model.diffusion_model."
FIRST_STAGE = "first_stage_model."
COND_STAGE = "cond_stage_model."
CONDITIONER = "conditioner."
TEXT_ENCODERS = "text_encoders."
TEXT = (COND_STAGE, CONDITIONER, TEXT_ENCODERS)
"""Whatever is below one of these is a text encoder's; in memory all of them are `cond_stage_model.`."""
EMA = "model_ema."
V_MARKER, ZERO_SNR_MARKER = "v_pred", "ztsnr"  # empty tensors by which readers of XL files know

ALSO_KNOWN_AS = {UNET: ("diffusion_model.",), FIRST_STAGE: ("vae.",), COND_STAGE: (CONDITIONER, TEXT_ENCODERS)}
UNET_ALONE = ("input_blocks.0.0.weight", "conv_in.weight", "x_embedder.proj.weight", "pos_embed.proj.weight")
FIRST_STAGE_ALONE = ("decoder.conv_in.weight", "encoder.conv_in.weight")
COND_STAGE_ALONE = (
    "text_model.",
    "transformer.text_model.",
    "embeddings.token_embedding.",
    "token_embedding.",
    "embedders.",
    "shared.weight",
    "encoder.embed_tokens.",
    "encoder.block.",
)


@dataclass(frozen=True)
class Parts:
    """The tensors of a checkpoint by part, each under its name without the part's prefix.

    `ema` has CompVis' names without dots; `rest` (schedule buffers, counters) keeps the names of the file. XL's text
    encoders are `embedders.0` and `embedders.1` of `cond_stage`.
    """

    unet: State
    first_stage: State
    cond_stage: State
    ema: State
    rest: State


def split_parts(state: State) -> Parts:
    """Sort the tensors of a checkpoint by the prefixes of their names; a file of one part alone has none."""
    parts: dict[str, State] = {prefix: {} for prefix in (UNET, FIRST_STAGE, COND_STAGE, EMA)}
    names = {alias: prefix for prefix in parts for alias in (prefix, *ALSO_KNOWN_AS.get(prefix, ()))}
    rest: State = {}
    for key, value in state.items():
        name = next((name for name in names if key.startswith(name)), None)
        if name is None:
            rest[key] = value
        else:
            parts[names[name]][key.removeprefix(name)] = value
    if not any(parts.values()) and (alone := part_alone(rest)):
        parts[alone], rest = rest, {}
    return Parts(parts[UNET], parts[FIRST_STAGE], parts[COND_STAGE], parts[EMA], rest)


def part_alone(state: State) -> str | None:
    """The prefix of the part whose tensors these are without prefix, if they are those of one part."""
    if any(key in state for key in FIRST_STAGE_ALONE):
        return FIRST_STAGE
    if any(key in state for key in UNET_ALONE):
        return UNET
    return COND_STAGE if any(key.startswith(COND_STAGE_ALONE) for key in state) else None


def part_of(state: State, prefix: str) -> State:
    """The tensors of one part, from a whole checkpoint or from a file that holds this part alone."""
    for name in (prefix, *ALSO_KNOWN_AS.get(prefix, ())):
        if part := below(state, name):
            return part
    return state


def below(state: State, prefix: str) -> State:
    """The tensors whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def parts_in(state: State) -> dict[str, int]:
    """{part as people call it: its tensors} of what a model under CompVis' names holds."""
    prefixes = {"UNet": (UNET,), "VAE": (FIRST_STAGE,), "text encoder": TEXT}
    counts = {name: sum(key.startswith(prefix) for key in state) for name, prefix in prefixes.items()}
    return {name: count for name, count in counts.items() if count}


def unet_of(state: State) -> State:
    return below(state, UNET)


def first_stage_of(state: State) -> State:
    return below(state, FIRST_STAGE)
