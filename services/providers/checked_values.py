"""The values of a provider's JSON, each of the type it must have. Every function raises ProviderError for another."""

from typing import Any

from turnlog.services.providers.provider import ProviderError


def mapping(value: object, name: str) -> dict[str, Any]:
    """`value`, which must be an object. `name` says in the error what it is."""
    if not isinstance(value, dict):
        raise ProviderError(f"The provider sent a {name} that is not an object")
    return value


def items(value: object, name: str) -> list[Any]:
    """`value`, which must be a list; an empty one for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProviderError(f"The provider sent {name} that are not a list")
    return value


def text(value: object, name: str) -> str:
    """`value`, which must be a text; an empty one for null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProviderError(f"The provider sent {name} that is not a text")
    return value


def count(value: object, name: str) -> int | None:
    """`value`, which must be a whole number from 0, or null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProviderError(f"The provider sent {name} that is not a count")
    return value


def whole_characters(pieces: str) -> str:
    """`pieces` with each two halves of a character made one; a half without its other stays."""
    return pieces.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
