"""Pictures as features of a pretrained encoder, and what is measured in them."""
