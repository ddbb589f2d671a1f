"""What a configuration can say, told to editors and on a page: parts, their keys, types and meaning, without torch."""
