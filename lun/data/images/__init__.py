"""From image files to numbers: decoding, colours, masks."""
