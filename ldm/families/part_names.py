"""The parts of a checkpoint, in the words of messages."""

from ldm.families.registry import known_families
from ldm.files.state import State
from ldm.keys.split_checkpoint import Parts

TOKENS = ("token_embedding.weight", "embeddings.token_embedding.weight", "shared.weight")

TEXT_WIDTHS = {768: "CLIP ViT-L", 1024: "OpenCLIP ViT-H", 1280: "OpenCLIP ViT-bigG", 4096: "T5-XXL"}


def text_encoders(cond_stage: State) -> tuple[str, ...]:
    """The encoders that a checkpoint holds, by the width of their tokens: `CLIP ViT-L`, `OpenCLIP ViT-H`, ..."""
    widths = [value.shape[-1] for key, value in sorted(cond_stage.items()) if key.endswith(TOKENS)]
    return tuple(TEXT_WIDTHS.get(width, f"text encoder of width {width}") for width in widths)


def network_title(network: State) -> str:
    """What a denoising network is called, for people: `UNet`, `MMDiT`."""
    networks = (family.network for family in known_families())
    return next((found.title for found in networks if found.recognises(network)), "UNet")


def named_parts(parts: Parts) -> tuple[str, ...]:
    """What a checkpoint holds, in the words of messages."""
    unet = network_title(parts.unet) if parts.unet else ""
    first_stage = "VAE" if parts.first_stage else ""
    averaged = "EMA" if any(key not in ("decay", "num_updates") for key in parts.ema) else ""
    encoders = text_encoders(parts.cond_stage) or (("text encoder",) if parts.cond_stage else ())
    return tuple(name for name in (unet, first_stage, *encoders, averaged) if name)
