"""What an OpenAI-compatible provider needs to be told, checked before anything is sent."""

import math

import httpx

from turnlog.domain.errors import BadInput


def checked_base_url(base_url: str) -> str:
    """`base_url` without a slash at its end. Raises BadInput, which doesn't quote it: it may hold a password."""
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError, UnicodeError):
        raise BadInput("base_url is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadInput("base_url must be an http:// or https:// URL with a host")
    if url.userinfo or url.query or url.fragment:
        raise BadInput("base_url must have no user, query or fragment")
    return str(url).rstrip("/")


def checked_model(model: str) -> str:
    """`model` as it is. Raises BadInput for an empty, overlong or unprintable name."""
    if not isinstance(model, str) or not model.strip() or len(model) > 256 or not model.isprintable():
        raise BadInput("model must be a name of 1 to 256 printable characters")
    return model


def checked_key(api_key: str | None) -> str | None:
    """`api_key` as it is. Raises BadInput for one that no header can carry; the text doesn't quote it."""
    if api_key is not None and not (api_key and all("!" <= char <= "~" for char in api_key)):
        raise BadInput("api_key must be printable ASCII without spaces, or None")
    return api_key


def checked_seconds(value: float, name: str) -> float:
    """`value` as it is. Raises BadInput unless it is a finite time above zero."""
    if not math.isfinite(value) or value <= 0:
        raise BadInput(f"{name} must be a number of seconds above 0")
    return value


def checked_retries(retries: int) -> int:
    """`retries` as it is. Raises BadInput for a negative number."""
    if retries < 0:
        raise BadInput("retries must be 0 or more")
    return retries
