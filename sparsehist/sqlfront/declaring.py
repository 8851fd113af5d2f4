"""From the options of WITH (…) to the parameters of `sparsehist.create` and `sparsehist.discover_keys`.

The fields of `Declaration` say what options there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import needed, parameters, sql_words
from sparsehist.domain import Open
from sparsehist.errors import DeclarationError, NotFoundError, SparsehistError, StatementError
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.release_tables import TAKEN_NAMES
from sparsehist.sqlfront.script import Place

_PUBLIC = "public_tables"
_HOW_TO_COUNT = {"memory_limit", "threads"}
_OF_THE_STATEMENT = {"steps"}
_NOT_FOR_STEPS = {"bounding", "noise", "every"}
_OF_DISCOVERY = ("unit", "key", "most_keys", "delta", "rounds", "kind", "population", "on_null", _PUBLIC)
_WORDS = sql_words(Declaration)
NEEDED = ("unit", *(word for word, name in _WORDS.items() if name in needed(Declaration)))


class Declared(NamedTuple):
    """What WITH (…) says of a log: the declaration, names of public tables, and further parameters."""

    declaration: Declaration
    public_tables: frozenset[str]
    further: Mapping[str, Any] = {}


def wanted_by(statement: Statement) -> Declared:
    """Return what the check of a statement with a query found; refuses one whose series was not there then."""
    if not isinstance(statement.wanted, Declared):
        raise NotFoundError(f"{statement.name} is neither a running series nor one of periods")
    return statement.wanted


def declared(statement: Statement) -> Declared:
    """Check the options of a series; errors show the place."""
    name, asked = statement.name, statement.asked
    if name in TAKEN_NAMES:
        raise statement.error(
            f"{name} cannot name a series here: in SQL, {name}.public would be DuckDB's own", "name"
        )
    values, public = _values(statement, options(running="steps" in asked), NEEDED)
    counting = {word: values.pop(word) for word in values.keys() & _HOW_TO_COUNT}
    told = {"name": name, **{_WORDS.get(word, word): value for word, value in values.items()}}
    declaration = _declaration(statement, **told, **({"steps": asked["steps"]} if "steps" in asked else {}))
    if not statement.query and declaration.steps is None and declaration.every is None:
        raise statement.error("expected AS and a query: it reads the log", "name")
    if statement.query and declaration.every is not None:
        raise statement.error("a series of periods has no query: APPEND TO it", "query")
    return Declared(declaration, public, counting)


def declared_for_step(statement: Statement, declaration: Declaration) -> Declared:
    """Return what an appended query must satisfy."""
    _, public = _values(statement, [_PUBLIC])
    if not {"step", "period"} & statement.asked.keys():
        raise statement.error("expected STEP or PERIOD", "query")
    if (declaration.steps if "step" in statement.asked else declaration.every) is None:
        kind = "running series, which has steps" if "step" in statement.asked else "series of periods"
        raise statement.error(f"{statement.name} is not a {kind}", "name")
    return Declared(declaration, public)


def declared_discovery(statement: Statement) -> Declared:
    """Check the options of CHOOSE KEYS; the further parameters are those of `discover_keys`."""
    asked, public = _values(statement, _OF_DISCOVERY, _OF_DISCOVERY[:4])
    asked["delta"] = str(asked["delta"])
    told = {"name": statement.name, "unit": asked["unit"], "key": asked["key"], "max_keys": 1}
    domain = partial(Open, asked.get("kind", "string"), delta=asked["delta"])
    declaration = _declaration(statement, **told, domain=domain)
    return Declared(declaration, public, asked | {"name": statement.name, "level": statement.asked["level"]})


def options(*, running: bool = False) -> list[str]:
    """Return names of all options, those that are needed first."""
    known = (_WORDS.keys() | {_PUBLIC}) - _OF_THE_STATEMENT
    known = known - _NOT_FOR_STEPS if running else known | _HOW_TO_COUNT
    return [*NEEDED, *sorted(known - set(NEEDED))]


def _values(
    statement: Statement, known: Iterable[str], needs: Iterable[str] = ()
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the values of the options, and the names of public tables."""
    found = {name: option.value for name, option in statement.options.items()}
    for name, option in statement.options.items():
        if name not in known:
            raise statement.piece.error(f"there is no option {name}; options are {', '.join(known)}", option.place)
        several = name == _PUBLIC or (name in _WORDS and parameters(Declaration)[_WORDS[name]].several)
        if isinstance(option.value, tuple) and not several:
            raise statement.piece.error(f"{name} takes one value", option.place)
    missing = [name for name in needs if name not in found]
    if missing:
        about = parameters(Declaration)
        example = ", ".join(f"{name} = {about[_WORDS[name]].example}" for name in missing if name in _WORDS)
        told = f"; for example {example}" if example else ""
        raise statement.error(f"WITH has no {' and no '.join(missing)}{told}", "name")
    public = found.pop(_PUBLIC, ())
    return found, frozenset((public,) if isinstance(public, str) else public)


def _declaration(statement: Statement, *, domain: Any = None, **told: Any) -> Declaration:
    try:
        return Declaration(domain=domain() if callable(domain) else domain, **told)
    except DeclarationError as problem:
        places = {name: option.place for name, option in statement.options.items()}
        raise pointed_at(statement, problem, places, {field: word for word, field in _WORDS.items()}) from None


def pointed_at(
    statement: Statement, problem: SparsehistError, places: Mapping[str, Place], words: Mapping[str, str]
) -> StatementError:
    """Return the error of a parameter at its place: that of the word for it, or of the first that it speaks of."""
    named = words.get(problem.parameter or "", problem.parameter or "")
    spoken = [word for word in places if word in str(problem)]
    first = min(spoken, key=str(problem).find, default="name")
    place = places.get(named if named in places else first, statement.places.get("name"))
    return statement.piece.error(str(problem), place)
