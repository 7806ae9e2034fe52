"""Buckets: so many at once, then one at a time, and nobody pays for another."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from exactformer.studio.errors import TooManyError
from exactformer.studio.security import rates
from exactformer.studio.security.rates import Rate, Rates

RATE = Rate(3, 60)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def allowed(buckets: Rates, key: str = "ada", tries: int = 10, name: str = "log-in") -> int:
    count = 0
    for _ in range(tries):
        try:
            buckets.take(name, key, RATE)
        except TooManyError:
            continue
        count += 1
    return count


def test_so_many_as_the_rate_says_come_through_at_once() -> None:
    assert allowed(Rates(Clock())) == 3


def test_after_a_third_of_the_time_one_more_does() -> None:
    buckets = Rates(clock := Clock())
    allowed(buckets)
    clock.time += 19.9
    assert allowed(buckets) == 0
    clock.time += 0.1
    assert allowed(buckets) == 1


def test_a_long_pause_fills_the_bucket_and_no_more() -> None:
    buckets = Rates(clock := Clock())
    allowed(buckets)
    clock.time += 100_000
    assert allowed(buckets) == 3


def test_keys_and_names_do_not_share() -> None:
    buckets = Rates(Clock())
    assert allowed(buckets, "ada") == 3
    assert allowed(buckets, "grace") == 3
    assert allowed(buckets, "ada", name="compile") == 3


def test_the_refusal_says_the_rate_and_when_to_come_back() -> None:
    buckets = Rates(Clock())
    allowed(buckets)
    with pytest.raises(TooManyError, match=r"3 in 60 seconds.*again in 20 seconds") as caught:
        buckets.take("log-in", "ada", RATE)
    assert caught.value.seconds == pytest.approx(20)


def test_one_of_anything_is_told_as_one() -> None:
    assert str(Rate(1, 1)) == "1 in 1 second"
    assert str(Rate(2, 120)) == "2 in 2 minutes"
    buckets = Rates(Clock())
    buckets.take("log-in", "ada", Rate(1, 1))
    with pytest.raises(TooManyError, match=r"1 in 1 second is allowed.*again in 1 second$"):
        buckets.take("log-in", "ada", Rate(1, 1))


def test_buckets_that_are_full_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "FORGET_BEYOND", 5)
    buckets = Rates(clock := Clock())
    for i in range(5):
        buckets.take("log-in", str(i), RATE)
    clock.time += 60
    buckets.take("log-in", "new", RATE)
    assert list(buckets._full_at) == [("log-in", "new")]


def test_long_keys_count_alone_and_are_not_kept_as_they_are() -> None:
    buckets = Rates(Clock())
    assert allowed(buckets, "a" * 900_000) == 3
    assert allowed(buckets, "a" * 899_999 + "b") == 3
    assert allowed(buckets, "\ud800" * 100) == 3
    assert max(len(key) for _, key in buckets._full_at) <= rates.LONGEST_KEY


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_household_counts_as_one_address(host: str, counted: str) -> None:
    assert rates.address(Request({"type": "http", "client": (host, 1234)})) == counted


def test_a_request_from_nowhere_has_an_address_too() -> None:
    assert rates.address(Request({"type": "http", "client": None})) == "unknown"
