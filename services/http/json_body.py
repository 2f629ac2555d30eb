"""JSON request bodies, cut into raw members."""

import re
from collections.abc import Mapping

from turnlog.domain.raw_json import InvalidJson, check_text, split_object
from turnlog.services.http.request_body import UnsupportedMedia

_CHARSET = re.compile(rb";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """True if the body is declared as `application/json`. Raises UnsupportedMedia for a charset other than UTF-8."""
    content_type = headers.get(b"content-type", b"")
    if content_type == b"application/json":
        return True
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        return False
    charset = _CHARSET.search(content_type)
    if charset is not None and charset[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        raise UnsupportedMedia("charset must be utf-8")
    return True


def json_members(headers: Mapping[bytes, bytes], body: bytes) -> dict[str, bytes]:
    """The members of the body's object as raw JSON. Raises InvalidJson."""
    if not is_json(headers):
        raise InvalidJson("invalid JSON")
    check_text(body)
    return split_object(body)
