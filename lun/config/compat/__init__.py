"""Old spellings (CompVis, InvokeAI and translunar-diffusion YAML, Lightning 1.x) translated at the border."""
