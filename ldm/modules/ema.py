"""The import path by which configurations name the average: `ldm.modules.ema.LitEma`."""

from ldm.ema.lit_ema import LitEma

__all__ = ["LitEma"]
