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


class _WithoutAliases(yaml.SafeLoader):
    """Safe YAML that refuses `*name`."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias is not read here", mark)
        return super().compose_node(parent, index)
