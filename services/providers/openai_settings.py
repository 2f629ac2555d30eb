"""What an OpenAI-compatible provider needs to be told, checked before anything is sent."""

import httpx

from turnlog.domain.errors import BadInput

_LONGEST_S = 366 * 86_400.0


def checked_base_url(base_url: str) -> str:
    """`base_url` without a slash at its end. Raises BadInput, which doesn't quote it: it may hold a password."""
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError, UnicodeError):
        raise BadInput("base_url is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadInput("base_url must be an http:// or https:// URL with a host")
    if url.userinfo or "?" in base_url or "#" in base_url:
        raise BadInput("base_url must have no user, query or fragment")
    if url.port is not None and not 0 < url.port < 1 << 16:
        raise BadInput("base_url must have a port from 1 to 65535, or none")
    return str(url).rstrip("/")


def checked_model(model: str) -> str:
    """`model` as it is. Raises BadInput for an empty, overlong or unprintable name."""
    if not isinstance(model, str) or not model.strip() or len(model) > 256 or not model.isprintable():
        raise BadInput("model must be a name of 1 to 256 printable characters")
    return model


def checked_key(api_key: str | None) -> str | None:
    """`api_key` as it is. Raises BadInput for one that no header can carry; the text doesn't quote it."""
    if api_key is None:
        return None
    if not isinstance(api_key, str) or not api_key or not all("!" <= char <= "~" for char in api_key):
        raise BadInput("api_key must be printable ASCII without spaces, or None")
    return api_key


def checked_seconds(value: float, name: str) -> float:
    """`value` as it is. Raises BadInput unless it is a time above zero, of at most a year."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_S:
        raise BadInput(f"{name} must be a number of seconds above 0, of at most a year")
    return value


def checked_retries(retries: int) -> int:
    """`retries` as it is. Raises BadInput for what is no whole number from 0."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise BadInput("retries must be a whole number from 0")
    return retries
