"""Cached answers: how long they are kept, and how many."""

from turnlog.services.agent.response_cache import MOST, ResponseCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_kept_for_its_time_and_not_longer() -> None:
    clock = Clock()
    cache = ResponseCache(3600, clock=clock)
    cache.put("p", "a")
    clock.now = 3599.9
    assert cache.get("p") == "a"
    clock.now = 3600
    assert cache.get("p") is None


def test_the_answer_unused_for_longest_goes_first() -> None:
    cache = ResponseCache(3600)
    for number in range(MOST):
        cache.put(str(number), "a")
    assert cache.get("0") == "a"
    cache.put("one more", "a")
    assert cache.get("0") == "a"
    assert cache.get("1") is None
