"""YAML, by PyYAML's safe loader; what that raises of odd values is an `InputError` as well."""

from __future__ import annotations

from typing import Any

from kvsweep.errors import InputError, clip

# Of values as `!!int ""`, `!!bool x` and `!!timestamp x`, beside errors of YAML.
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def parse_yaml(text: str, where: str, before: int = 0, *, strict: bool = False) -> Any:
    """Return the value of a document.

    Parameters
    ----------
    text : str
        The document.
    where : str
        The file.
    before : int
        Lines of the file before it.
    strict : bool
        Whether a key twice is refused, as by Kubernetes and Compose; else the last counts.

    Raises
    ------
    InputError
        If it is none.
    """
    import yaml

    class Strict(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """Refuses a key twice, but for merges."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:
                if key.value != "<<" and isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        told = f"{key.value}: is given twice"
                        raise yaml.MarkedYAMLError(problem=told, problem_mark=key.start_mark)
                    seen.add(key.value)
            return node

    try:
        return yaml.load(text, Loader=Strict if strict else yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f"line {before + mark.line + 1}: "
        told = getattr(error, "problem", None) or str(error)
    except _ODD as error:
        line, told = "", str(error)
        told = "nested too deeply" if isinstance(error, RecursionError) else f"odd value: {told}"
    raise InputError(f"{where}: {line}no YAML: {clip(' '.join(told.split()))}")
