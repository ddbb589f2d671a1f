"""kohya's sd-scripts: what its options and its dataset TOML say of pictures and captions."""

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import (
    TRAIN,
    Counterpart,
    captions,
    changed,
    elsewhere,
    idle,
    none,
    noted,
    objective,
    rows,
    setting,
)

_SETS = "docs/datasets.md"
_WHOLE_MEAN = "mean: {target: ldm.diffusion.loss.WholeMean}"
_WHOLE_PIXELS = (
    "the cost is the mean over all pixels, as there; without the line it is over those of the mask, so that a mask of a"
    " tenth of a picture weighs ten times as much"
)

DATA_ROWS = rows(
    ("train_data_dir", noted(a.DATA, "folders `10_name` are known: `--base sd15 kohya`")),
    ("image_dir", a.DATA),
    ("reg_data_dir", elsewhere(f"a set of `kind: class`: {_SETS}", "reg")),
    ("is_reg", elsewhere(f"a set of `kind: class`: {_SETS}")),
    ("in_json metadata_file", elsewhere("read where it lies with the pictures: `--data_root DIR`", "meta_cap.json")),
    ("dataset_config config_file", elsewhere("`python -m lun.migrate FILE -o DIR` writes it as YAML", "a.toml")),
    ("output_config", idle("nothing to say: --print-config shows what results")),
    ("dataset_repeats num_repeats", elsewhere(f"folders `10_name`, or `repeats` of a set: {_SETS}", "10")),
    ("class_tokens", setting(f"{TRAIN}.default_caption", "sks cat")),
    ("resolution", a.SIZE),
    ("enable_bucket", a.BUCKETS),
    ("bucket_reso_steps", Counterpart(("data.params.buckets.step={}",), ("buckets",), example="64")),
    (
        "min_bucket_reso max_bucket_reso",
        none(
            "`data.params.buckets.min_aspect` and `max_aspect` bound the shape: there the sides are bounded, here all"
            " shapes have about one area",
            "256",
        ),
    ),
    (
        "bucket_no_upscale",
        none("small pictures are enlarged to their shape; `metadata_params.min_size` leaves them out"),
    ),
    ("train_batch_size batch_size", a.BATCH),
    ("max_data_loader_n_workers", a.WORKERS),
    ("persistent_data_loader_workers", idle("nothing to say: they always stay")),
    ("cache_latents cache_latents_to_disk", a.CACHE),
    (
        "cache_text_encoder_outputs cache_text_encoder_outputs_to_disk",
        noted(a.CACHE, "texts are kept as well, where their encoder does not train"),
    ),
    (
        "vae_batch_size text_encoder_batch_size skip_cache_check skip_latents_validity_check cache_info",
        idle("nothing to say: caches are filled by what fits"),
    ),
    (
        "caption_extension caption_extention",
        noted(
            Counterpart(
                (f"{TRAIN}.captions={{files: [{{}}]}}",),
                example="caption2",
                reads=lambda text: text.lstrip("."),
                choices=dict.fromkeys((".txt", ".caption", "txt", "caption"), a.FOUND),
            ),
            ".txt and .caption are found",
        ),
    ),
    ("shuffle_caption", a.SHUFFLE),
    ("keep_tokens", captions('split_tags: ",", keep_tags: {}', "1")),
    ("keep_tokens_separator", captions('split_tags: ",", keep_separator: "{}"', "|||")),
    ("caption_separator", captions('split_tags: "{}"', ";")),
    ("secondary_separator", none("tags that move together are not distinguished", ";;;")),
    ("caption_tag_dropout_rate", captions('split_tags: ",", tag_dropout_p: {}', "0.1")),
    ("caption_dropout_rate", a.UNCONDITIONAL),
    ("caption_dropout_every_n_epochs", none("captions are left out by chance alone: caption_dropout_rate", "4")),
    ("caption_prefix", captions('prefix: "{}"', "by hand, ")),
    ("caption_suffix", captions('suffix: "{}"', ", by hand")),
    ("token_warmup_step", captions('split_tags: ",", tag_warmup_steps: {}', "500")),
    ("token_warmup_min", captions('split_tags: ",", tag_warmup_min: {}', "2")),
    ("enable_wildcard", captions("wildcards: true, several_captions: true")),
    ("weighted_captions", none("brackets in captions are read as they stand")),
    ("flip_aug", a.FLIP),
    ("random_crop", a.RANDOM_CROP),
    ("color_aug", Counterpart((f"{TRAIN}.colour_jitter={{hue: 0.02}}",))),
    ("face_crop_aug_range", none("there is no cut that seeks faces; a mask says what counts", "1.0,4.0")),
    ("alpha_mask", changed(Counterpart((f"{TRAIN}.mask=alpha", *objective(_WHOLE_MEAN).words)), _WHOLE_PIXELS)),
    (
        "masked_loss",
        changed(
            Counterpart((f"{TRAIN}.mask=folder", *objective(_WHOLE_MEAN).words)),
            f"masks lie in a folder `mask` beside the pictures; {_WHOLE_PIXELS}",
        ),
    ),
    (
        "conditioning_data_dir",
        none("masks lie in a folder `mask` beside the pictures; ControlNet is not trained", "masks"),
    ),
    (
        "validation_split",
        Counterpart(
            (f"{TRAIN}.split={{fraction: {{}}, by: hash}}", f"{TRAIN}.subset=train"),
            example="0.05",
            say="and data.params.validation with `subset: validation`: lun/README.md",
        ),
    ),
    ("validation_seed", idle("nothing to say: a picture is in its part by its name")),
    ("resize_interpolation", a.INTERPOLATION),
    ("dataset_class", none("`data.params.train.target`, a class of one's own", "my.Dataset")),
    ("debug_dataset", idle("`python -m lun.inspect`")),
)
