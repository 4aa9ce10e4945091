"""Settings from outside: no unknown key, no wrong type, nothing missing, one clear line."""

import datetime
from dataclasses import dataclass
from typing import Literal

import pytest

from operformer.errors import UsageError
from operformer.settings import check_name, choose, construct


@dataclass(frozen=True)
class Everything:
    count: int
    rate: float = 0.5
    title: str = "none"
    is_on: bool = False
    rule: Literal["plateau", "cosine"] = "plateau"
    names: tuple[Literal["y", "z"], ...] = ("y",)
    steps: tuple[float, ...] = ()
    limit: int | None = None


class ByHand:
    def __init__(self, channels: int, width: float = 2.0) -> None:
        self.channels, self.width = channels, width


def by_function(channels: int, width: float = 2.0) -> tuple[int, float]:
    return channels, width


def make(**values):
    return construct(Everything, {"count": 3} | values, "place")


def test_values_of_the_right_type_arrive():
    given = {
        "count": 7, "rate": 0.25, "title": "a", "is_on": True, "rule": "cosine",
        "names": ["z", "y"], "steps": [0.5, 2], "limit": 11,
    }  # fmt: skip
    made = construct(Everything, given, "place")
    assert made == Everything(7, 0.25, "a", True, "cosine", ("z", "y"), (0.5, 2.0), 11)
    assert type(made.names) is tuple
    assert [type(step) for step in made.steps] == [float, float]


def test_defaults_fill_in():
    assert make() == Everything(3)


def test_a_whole_number_serves_as_a_number_and_becomes_one():
    assert type(make(rate=2).rate) is float
    assert make(rate=2).rate == 2.0


def test_none_is_taken_only_where_it_is_allowed():
    assert make(limit=None).limit is None
    with pytest.raises(UsageError, match=r"place\.rate"):
        make(rate=None)


WRONG = {
    "count": [1.0, 1.5, "1", True, None, [1], {"a": 1}, datetime.date(2025, 1, 1)],
    "rate": ["0.5", True, None, [0.5], {}],
    "title": [1, 1.0, True, None, ["a"]],
    "is_on": [1, 0, 1.0, "true", None, [True]],
    "rule": ["Cosine", "", "step", 1, None, ["cosine"], True],
    "names": ["y", "yz", [1], ["x"], [["y"]], None, 1, {"y": 1}],
    "steps": [0.5, "0.5", [True], ["1"], [None], [[0.5]]],
    "limit": [1.0, "1", True, [1]],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_a_wrong_type_is_refused_with_its_place_and_value(key, value):
    with pytest.raises(UsageError) as caught:
        make(**{key: value})
    message = str(caught.value)
    assert f"place.{key} must be" in message
    assert "got" in message
    assert "\n" not in message


def test_what_a_literal_takes_is_listed():
    with pytest.raises(UsageError, match=r"place\.rule must be 'plateau' or 'cosine': got 'step'"):
        make(rule="step")


@pytest.mark.parametrize(
    ("wrong", "right"), [("cuont", "count"), ("rat", "rate"), ("Title", "title"), ("ison", "is_on"), ("rules", "rule")]
)
def test_an_unknown_key_is_refused_with_the_nearest_one(wrong, right):
    with pytest.raises(UsageError, match=rf"unknown setting place\.{wrong}; did you mean {right}\?"):
        make(**{wrong: 1})


def test_an_unknown_key_that_is_near_nothing_gets_the_list():
    with pytest.raises(UsageError, match=r"unknown setting place\.qqqq; known are count, rate, title, is_on, rule"):
        make(qqqq=1)


def test_a_missing_key_is_named():
    with pytest.raises(UsageError, match=r"place\.count is missing"):
        construct(Everything, {"rate": 1.0}, "place")


@pytest.mark.parametrize("target", [ByHand, by_function])
def test_constructors_and_functions_are_read_alike(target):
    made = construct(target, {"width": 3}, "place", channels=5)
    assert (made if target is by_function else (made.channels, made.width)) == (5, 3.0)
    with pytest.raises(UsageError, match=r"place\.channels is missing"):
        construct(target, {}, "place")
    with pytest.raises(UsageError, match=r"unknown setting place\.self"):
        construct(target, {"self": 1, "channels": 1}, "place")


def test_what_is_fixed_cannot_be_given_again():
    with pytest.raises(UsageError, match=r"unknown setting place\.channels"):
        construct(ByHand, {"channels": 2}, "place", channels=5)


def test_choose_gives_the_option_of_that_name():
    assert choose({"a": 1, "b": 2}, "b", "place") == 2


@pytest.mark.parametrize("name", [None, 1, ["a"], True, {"a": 1}])
def test_choose_refuses_what_is_no_name(name):
    with pytest.raises(UsageError, match="place must be one of alpha, beta: got"):
        choose({"alpha": 1, "beta": 2}, name, "place")


def test_choose_suggests_the_nearest_option():
    with pytest.raises(UsageError, match=r"place is unknown: 'alhpa'; did you mean alpha\?"):
        choose({"alpha": 1, "beta": 2}, "alhpa", "place")


def test_names_differ_in_their_case_and_in_spaces():
    for name in ("Alpha", "alpha ", ""):
        with pytest.raises(UsageError, match="complaint"):
            check_name(name, ["alpha"], "complaint")
