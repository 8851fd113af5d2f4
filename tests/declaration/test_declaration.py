"""Tests of `Declaration`, the parameters of a series, which Python, SQL and the command line share."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

from sparsehist.declaration import Declaration, Every, Keep, Share, Steps
from sparsehist.declaration.bounding import bounding_of
from sparsehist.declaration.parameters import needed, parameter, rows, sql_words
from sparsehist.declaration.recurring import every_of, steps_of
from sparsehist.domain import Catalogue, Strings
from sparsehist.domain.unread import UnreadDomain
from sparsehist.errors import DeclarationError, DomainError

WHOLE = {"name": "visits", "unit": "user", "key": "url", "max_keys": 20, "domain": "strings(max_bytes=8)"}


def test_the_record_holds_canonical_values():
    """Parameters given as text, as in SQL or on the command line, equal those given as Python objects."""
    told = Declaration(**WHOLE, bounding="share(most_keys=100)", cap="1/3")
    made = Declaration(
        **WHOLE | {"key": ["url"], "domain": Strings(max_bytes=8)},
        bounding=Share(most_keys=100), cap=told.cap,
    )  # fmt: skip
    assert told == made
    assert (told.key, told.bounding.most_keys, str(told.cap)) == (("url",), 100, "1/3")
    assert Declaration(**WHOLE, steps="7") == Declaration(**WHOLE, steps=Steps(7))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"unit": ("date", "ip"), "key": ["a", "b"], "domain": "product(a=integers(3), b=hash64())"},
        {"bounding": Share(), "cap": "0.1", "population": "clients", "on_null": "drop"},
        {"steps": Steps(30, start="2026-01-01", every="week")},
        {"every": Every("month", periods=3, protects="user-month", most_periods=2)},
        {"key_types": {"url": "text"}, "unverified": True, "source": "unchecked source"},
        {"period": "2026-W12"},
        {"unit": None, "noise": "skellam", "max_keys": 3},
    ],
)
def test_json_gives_the_same_declaration(given):
    """A declaration that is stored as JSON reads back as an equal declaration."""
    made = Declaration(**WHOLE | given)
    stored = json.loads(json.dumps(made.as_json()))
    assert Declaration.from_json(stored) == made
    assert made.differing(stored) == []


@pytest.mark.parametrize(
    ("given", "parameter", "words"),
    [
        ({"max_keys": 0}, "max_keys", "from 1 to"),
        ({"max_keys": True}, "max_keys", "got True"),
        ({"noise": "cauchy"}, None, "gaussian"),
        ({"on_null": "ignore"}, "on_null", "'error', 'drop'"),
        ({"name": "Visits"}, "name", "lower-case"),
        ({"unit": "url"}, "unit", "not a key column"),
        ({"bounding": "share", "noise": "skellam"}, "bounding", "Gaussian or Laplace"),
        ({"bounding": Share(most_keys=3)}, "bounding", "it must be from 20 to"),
        ({"steps": 7, "every": "week"}, "every", "not both"),
        ({"key_types": {"user": "date"}}, "key_types", "not a key column"),
        ({"key": ["url", "day"]}, "domain", "must name the columns"),
    ],
)
def test_a_wrong_parameter_is_named(given, parameter, words):
    """The error about a wrong parameter names the parameter and states its allowed values."""
    with pytest.raises(DeclarationError, match=words) as caught:
        Declaration(**WHOLE | given)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (bounding_of, "keep"),
        (bounding_of, "keep(portable=True)"),
        (bounding_of, "share(most_keys=9, portable=True)"),
        (steps_of, "steps(365)"),
        (steps_of, "steps(52, start='2026-01-01', every='week')"),
        (every_of, "every('day')"),
        (every_of, "every('week', periods=3, protects='user-week', most_periods=1)"),
    ],
)
def test_a_text_form_reads_back(read, text):
    """Reading the text of a bounding rule, of steps or of periods and writing it again gives the same text."""
    assert str(read(text)) == text


def test_days_name_steps():
    """A day is mapped to the step that contains it, and a day outside all steps is refused."""
    weeks = Steps(2, start="2026-01-01", every="week")
    assert [weeks.step_of(day) for day in ("2026-01-01", "2026-01-07", "2026-01-08", 2)] == [1, 1, 2, 2]
    for wrong in ("2025-12-31", "2026-01-15", "monday", 3, True):
        with pytest.raises(DeclarationError):
            weeks.step_of(wrong)


def test_a_file_that_a_text_names_is_not_opened(tmp_path):
    """Reading a declaration from JSON keeps the text of its domain but does not open the file named in this text."""
    file = tmp_path / "areas.txt"
    file.write_text("a\nb\n")
    made = Declaration(**WHOLE | {"domain": Catalogue(file=file)})
    file.unlink()
    read = Declaration.from_json(made.as_json())
    assert isinstance(read.domain, UnreadDomain) and str(read.domain) == str(made.domain)
    with pytest.raises(DomainError, match="were not loaded"):
        read.domain.size  # noqa: B018 - the access is the test


def test_every_word_of_sql_has_a_parameter():
    """`sql_words` returns the parameters that SQL accepts, required ones first, and leaves out all others."""
    words = sql_words(Declaration)
    assert words[:2] == ["max_keys", "unit"]
    assert {"unit", "bounding", "noise", "cap", "unverified"} <= set(words)
    assert {"name", "source", "period", "key_types"}.isdisjoint(words)
    assert needed(Declaration) == ["name", "max_keys"]


@dataclass(frozen=True, kw_only=True)
class Wider(Declaration):
    """A declaration with one additional parameter."""

    colour: str = parameter("Colour of the series.", "red", choices=("red", "blue"))


def test_one_field_is_one_parameter():
    """A new field of `Declaration` is checked, stored, compared, shown and read from SQL without further code."""
    made = Wider(**WHOLE, colour="blue")
    assert Wider.from_json(made.as_json()) == made
    assert made.differing(replace(made, colour="red").as_json()) == ["colour"]
    assert ("colour", "blue") in rows(made)
    assert "colour" in sql_words(Wider)
    with pytest.raises(DeclarationError, match="'red', 'blue'"):
        Wider(**WHOLE, colour="green")
    assert Keep() == made.bounding
