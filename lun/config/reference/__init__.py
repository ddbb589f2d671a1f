"""What a configuration can say, for editors and on a page: parts, their keys, types and meaning, without torch."""
