"""The commands about series whose log goes on; what they do stands in `running_work`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.shared_options import SeriesName, StorePath, Wait, Who

Step = Annotated[int, Parameter(help="From 1.")]


def create_running(
    store: StorePath,
    /,
    *,
    unit: Annotated[list[str], Parameter(help="Column of the privacy unit, or several: date,ip_id.")],
    key: Annotated[list[str], Parameter(help="Key column; repeat it for a product domain.")],
    max_keys: Annotated[int, Parameter(help="Distinct keys one unit counts towards at most, over all steps.")],
    domain: Annotated[str, Parameter(help="All keys that could occur, as for create.")],
    name: Annotated[str, Parameter(help="Name of the new series: a-z, 0-9 and _.")],
    steps: Annotated[int, Parameter(help="How many steps there will be at most, days of a year say.")] = 365,
    cap: Annotated[str | None, Parameter(help="Refuse releases beyond this level, exact.")] = None,
    population: Annotated[str, Parameter(help="The people behind the units; costs add within it.")] = "default",
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Declare a series whose log goes on, day by day.

    Nothing is counted yet: append adds the log of a step, and release --step the
    running count of any step that was appended. All steps and levels together
    cost what the finest level costs. A unit counts once per key over all steps.

    For example:
      sparsehist create-running logs.sparsehist --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)' --steps 365 --cap 1 \
          --name daily
    """
    from sparsehist.cli.running_work import declare_running

    return declare_running(
        store, name=name, unit=unit, key=key, max_keys=max_keys, domain=domain, steps=steps, cap=cap,
        population=population, who=who, wait=wait,
    )  # fmt: skip


def append(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    step: Step,
    input: Annotated[list[str], Parameter(help="Parquet, CSV or JSON lines: file or quoted glob; may be repeated.")],  # noqa: A002
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    """Append the log of the next step to a running series, all or nothing.

    The same log again changes nothing and succeeds. Another log for a step that
    was appended is refused: counts of a step never change. The store keeps who
    counted for what, as secret as the log, until finish erases it.

    For example:
      sparsehist append logs.sparsehist --series daily --step 1 --input day_1.parquet
    """
    from sparsehist.cli.running_work import append_step

    return append_step(store, series, input, step=step, who=who, wait=wait)


def finish(store: StorePath, /, *, series: SeriesName, who: Who = None, wait: Wait = 0.0) -> Answer:
    """Erase who counted in a running series; nothing can be appended then, releases go on.

    For example:
      sparsehist finish logs.sparsehist --series daily
    """
    from sparsehist.cli.running_work import finish_series

    return finish_series(store, series, who=who, wait=wait)
