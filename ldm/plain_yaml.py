"""Plain values out of YAML that anybody may have written, in limits."""

from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    """The value of a YAML text without aliases, which a few lines of could fill all memory. ValueError as above.

    For files of other programs and lists that people write; configurations have a reader of their own.
    """
    try:
        return yaml.load(text, _WithoutAliases)
    except (yaml.YAMLError, ArithmeticError, LookupError, AttributeError, TypeError, RecursionError) as error:
        is_yaml_error = isinstance(error, yaml.YAMLError)
        raise ValueError(str(error) if is_yaml_error else "it is nested too deeply, or has odd types") from error


def entries_of_yaml(text: str) -> list[tuple[int, list[str]]]:
    """Of each entry of a list, the line where it begins, from 1 on, and the keys that it says, those said twice too.

    text  what `parse_yaml` gives a list of
    """
    root = yaml.compose(text, _WithoutAliases)
    entries = root.value if isinstance(root, yaml.SequenceNode) else []
    return [(entry.start_mark.line + 1, _keys(entry)) for entry in entries]


def _keys(node: yaml.Node) -> list[str]:
    return [str(key.value) for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []


class _WithoutAliases(yaml.SafeLoader):
    """Safe YAML that refuses `*name`."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias is not read here", mark)
        return super().compose_node(parent, index)
