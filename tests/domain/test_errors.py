"""The error tree: a category alone decides the HTTP status and whether a retry can help."""

import inspect

import pytest

from turnlog.domain import errors
from turnlog.domain.errors import HTTP_STATUS, RETRIABLE, Category, TurnlogError


@pytest.mark.parametrize(
    ("error", "status", "retriable"),
    [
        (errors.BadInput("x"), 400, False),
        (errors.TooLarge("x"), 413, False),
        (errors.KeyReused("x"), 422, False),
        (errors.Conflict("x", epoch=5), 409, False),
        (errors.Gone("x"), 410, False),
        (errors.NotYet("x", retry_after_s=2), 503, True),
        (errors.Unavailable("x"), 503, True),
        (errors.OutcomeUnknown("x"), 503, True),
        (errors.Bug("x"), 500, False),
        (errors.Unfoldable("x"), 500, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_its_status(error: TurnlogError, status: int, retriable: bool) -> None:
    assert HTTP_STATUS[error.category] == status
    assert (error.category in RETRIABLE) is retriable
    assert str(error) == "x"


def test_every_category_has_a_status() -> None:
    assert set(HTTP_STATUS) == set(Category)


def test_there_is_one_tree() -> None:
    found = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert all(issubclass(value, TurnlogError) for value in found)
