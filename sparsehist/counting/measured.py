"""Convert columns of measures to whole numbers of steps. A value that cannot be converted becomes null.

A value is rounded towards zero to a multiple of the step. A float becomes the largest multiple that, when rounded to
a float, is not above the value. So the float 0.29, which is slightly below 29/100, is 29 steps of 0.01. The guarantee
does not depend on this rounding, because the sum of each unit is clipped afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from sparsehist.counting.keys import NULL_REMEDY
from sparsehist.counting.log import Log
from sparsehist.declaration.measures import Measure
from sparsehist.errors import DataError
from sparsehist.store.series_files import SUM

MOST_ROW_STEPS = 2**31 - 1
"""Largest absolute value of a row, in steps. The sum of 2**32 such rows fits in 64 bits."""
LARGEST_SUM = 2**46
"""Largest absolute sum of a key, in steps. The sum and its noise then fit in a double."""


def sum_names(measures: Sequence[Measure]) -> list[str]:
    """Return the names of the columns of sums, in the order of the measures."""
    return [f"{SUM}{number}" for number in range(len(measures))]


def row_columns(measures: Sequence[Measure]) -> dict[str, Measure]:
    """Return a dict from the name of each converted column to its measure. Measures without a column are left out."""
    return {f"measure {number}": each for number, each in enumerate(measures) if each.column is not None}


def row_steps(measures: Sequence[Measure], log: Log) -> dict[str, pl.Expr]:
    """Return a dict from the name of each converted column to the Polars expression that computes it (Int32)."""
    return {name: _steps(each, log).cast(pl.Int32).alias(name) for name, each in row_columns(measures).items()}


def check_number(column: str, log: Log) -> pl.DataType:
    """Return the dtype of a column to be summed; refuse a column that is not numeric."""
    dtype = log.dtypes[column]
    if not (dtype.is_numeric() or column in log.texts):
        raise DataError(f"a measure needs a column of whole numbers, decimals or floats: cast {column!r} ({dtype})")
    return dtype


def steps_sql(
    measure: Measure, column: str, cast: Callable[[str, str], str], exact: type[np.floating] = np.float64
) -> tuple[str, str]:
    """Return SQL that converts a value to steps, as `float_steps` does, and SQL that is true if the value is valid.

    Args:
        measure: The measure.
        column: SQL for the values of the measure, numbers of any type.
        cast: Function that returns SQL for a cast, given the type ("double", "bigint" or "real") and SQL for a value.
        exact: np.float32 for a column of 32-bit floats, otherwise np.float64. Multiples of the step are rounded to
            this type before they are compared with a value.
    """
    if measure.column is None:
        return cast("bigint", "1"), ""
    rises, per = measure.step.numerator, measure.step.denominator

    def multiple(steps: int) -> str:
        return cast("double", repr(float(exact(float(steps * rises) / per))))

    value = cast("double", column)
    size, up, down = f"abs({value})", cast("double", str(rises)), cast("double", str(per))
    most = MOST_ROW_STEPS if measure.signed else measure.most_steps
    near = f"floor({size} * {down} / {up} + 0.5)"  # may be one step too many; the CASE in `steps` corrects this
    reached = f"{near} * {up} / {down}"
    reached = reached if exact is np.float64 else cast("double", cast("real", reached))
    steps = cast(
        "bigint",
        f"case when {size} < {multiple(1)} then 0 when {size} >= {multiple(most)} then {most} "
        f"else {near} - case when {reached} > {size} then 1 else 0 end end",
    )
    if not measure.signed:
        return steps, f"{value} between 0 and {cast('double', repr(sys.float_info.max))}"
    return f"case when {value} < 0 then -{steps} else {steps} end", f"{size} < {multiple(most + 1)}"


def _steps(measure: Measure, log: Log) -> pl.Expr:
    column = str(measure.column)
    dtype = check_number(column, log)
    if not dtype.is_integer():
        exact = np.float32 if dtype == pl.Float32 else np.float64
        return (
            pl.col(column)
            .cast(pl.Float64, strict=False)
            .map_batches(lambda values: float_steps(values, measure, exact), pl.Int32, is_elementwise=True)
        )
    # Clip values to slightly wider bounds, so that value * (denominator of the rounding step) fits in 64 bits.
    most = MOST_ROW_STEPS if measure.signed else measure.most_steps
    outermost = most * measure.step.numerator // measure.step.denominator + 1
    value = pl.col(column).clip(upper_bound=outermost) if dtype == pl.UInt64 else pl.col(column)
    value = value.cast(pl.Int64, strict=False).clip(-outermost, outermost)
    size = value.abs() * measure.step.denominator // measure.step.numerator
    if not measure.signed:
        return pl.when(value >= 0).then(size.clip(upper_bound=most))
    return pl.when(size <= most).then(pl.when(value < 0).then(-size).otherwise(size))


def float_steps(values: pl.Series, measure: Measure, exact: type[np.floating]) -> pl.Series:
    """Convert doubles to whole numbers of steps, rounded towards zero.

    Multiples of the step are rounded to the float type `exact` before they are compared with a double. The result is
    Int32, and null for a value that cannot be converted. numpy does the division, because Polars multiplies by the
    inverse, which rounds twice.
    """
    rises, per = float(measure.step.numerator), float(measure.step.denominator)
    number = (values.fill_null(np.nan) if values.null_count() else values).to_numpy()
    size = np.abs(number) if measure.signed else number
    with np.errstate(over="ignore", invalid="ignore"):
        whole = size * (per / rises)
        np.rint(np.minimum(whole, 2.0 * MOST_ROW_STEPS, out=whole), out=whole)
        multiple = whole / per if rises == 1 else whole * rises / per
        whole -= multiple.astype(exact, copy=False) > size  # `rint` may have rounded up to one step too many
    if measure.signed:
        measurable = whole <= MOST_ROW_STEPS
        np.copysign(whole, number, out=whole)
    else:
        measurable = (number >= 0) & (number < np.inf)
        np.minimum(whole, measure.most_steps, out=whole)
    if np.all(measurable):
        return pl.Series(values.name, whole.astype(np.int32))
    steps = pl.Series(values.name, np.where(measurable, whole, 0).astype(np.int32))
    return steps.zip_with(pl.Series(measurable), pl.Series([None], dtype=pl.Int32))


def unmeasured_error(measure: Measure) -> DataError:
    """Return the error for values of a measure that are missing, not numbers or out of range."""
    beyond = "too large for its step" if measure.signed else "negative"
    also = "" if measure.signed else "; clip=(-B, B) allows negative values"
    return DataError(
        f"measure column {str(measure.column)!r} holds values that are null, NaN, not numbers, infinite or {beyond}: "
        f"{NULL_REMEDY}{also}"
    )


def check_sums(frame: pl.DataFrame, measures: Sequence[Measure]) -> None:
    """Refuse sums of more than `LARGEST_SUM` steps: with noise added, a double might not represent them precisely."""
    for name, measure in zip(sum_names(measures), measures, strict=True):
        if frame.height and int(frame[name].abs().max() or 0) > LARGEST_SUM:  # type: ignore[arg-type]
            raise DataError(
                f"a sum has too many steps (limit: {LARGEST_SUM}): declare a larger step for measure {measure.name!r}"
            )
