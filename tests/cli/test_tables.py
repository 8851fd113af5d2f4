"""Tables for people: nothing is left out that can be read, and no word is broken that need not be."""

import polars as pl
from rich.console import Console

from sparsehist.cli.answer import print_shown
from sparsehist.cli.tables import rows_table


def drawn(frame, width=40, **options):
    """What a terminal of that width shows."""
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        print_shown(console, [rows_table(frame, **options)])
    return captured.get()


def test_words_stay_whole_where_there_is_no_room():
    """A table that is wider than the terminal breaks between words, and runs on rather than break one."""
    frame = pl.DataFrame({"scope": ["population"], "noise": ["gaussian"], "limit": ["epsilon 8 at delta 0.000001"]})
    shown = drawn(frame)
    assert {"population", "gaussian", "epsilon", "0.000001"} <= set(shown.split())


def test_a_very_long_key_is_cut_and_its_length_told():
    """A key of an open domain may be a whole document; --json has all of it."""
    shown = drawn(pl.DataFrame({"key": ["k" * 20_000], "noisy_count": [7.0]}), width=100, exact=True)
    assert shown.count("k") == len("key") - 2 + 400
    assert "(20,000" in shown and "7.0" in shown


def test_names_in_brackets_are_no_markup():
    """A column of the user's may be called anything."""
    assert "[bold] x" in drawn(pl.DataFrame({"[bold] x": [1]}))
