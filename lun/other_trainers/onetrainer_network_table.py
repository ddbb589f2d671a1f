"""OneTrainer's settings of adapters and of words."""

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import Counterpart, elsewhere, idle, none, rows

NETWORK_ROWS = rows(
    ("peft_type", elsewhere("`lora`, `lokr` and other kinds: docs/adapters.md", "LORA")),
    ("lora_rank", a.RANK),
    ("lora_alpha", a.ALPHA),
    ("dropout_probability", a.DROPOUT),
    ("lora_decompose", Counterpart(base=("dora",))),
    (
        "lora_decompose_norm_epsilon lokr_dora_on_output lokr_vec_trick bundle_additional_embeddings",
        idle("nothing to say: it is so"),
    ),
    ("lora_decompose_output_axis", none("DoRA trains the axis of the inputs")),
    ("lora_model_name", none("`python -m lun.convert` merges it into the base", "my.safetensors")),
    (
        "layer_filter layer_filter_preset layer_filter_regex",
        elsewhere("`match` of a rule, by the names of layers: docs/adapters.md", "attn-mlp"),
    ),
    (
        "oft_block_size oft_block_share dora_oft oft_scaled oft_clipped_norm oft_cans",
        none("there is no OFT: docs/adapters.md has the kinds", "32"),
    ),
    ("lokr_dim", Counterpart(a.RANK.words, ("lokr",), example="16")),
    ("lokr_decompose_factor", elsewhere("`factor` of LoKr: docs/adapters.md", "8")),
    (
        "lokr_decompose_both lokr_use_tucker lokr_weight_decompose lokr_full_matrix",
        none("LoKr takes rank, alpha, dropout and factor: docs/adapters.md"),
    ),
    (
        "embedding additional_embeddings embedding_learning_rate preserve_embedding_norm",
        elsewhere("`--base sd15 ti`: docs/embeddings.md", "x"),
    ),
)
