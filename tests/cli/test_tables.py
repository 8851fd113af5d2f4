"""Tables for people: no word is broken that need not be, long keys are cut, brackets are no markup."""

from rich.console import Console

from sparsehist.cli.answer import rows_table


def drawn(row, width=40, **options):
    """What a terminal of that width shows of a table of one row."""
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(rows_table([row], **options))
    return captured.get()


def test_tables_show_whole_words_and_tell_the_length_of_what_they_cut():
    """A table wider than the terminal breaks between words; a key of an open domain may be a whole document."""
    shown = drawn({"scope": "population", "noise": "gaussian", "limit": "epsilon 8 at delta 0.000001"})
    assert {"population", "gaussian", "epsilon", "0.000001"} <= set(shown.split())
    long = drawn({"key": "k" * 20_000, "noisy_count": 7.0}, width=100, exact=True)
    assert long.count("k") == len("key") - 2 + 400
    assert "(20,000" in long and "7.0" in long
    assert "[bold] x" in drawn({"[bold] x": 1})
