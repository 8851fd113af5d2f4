"""Open domains on the command line."""

CREATE = ("--unit", "user_id", "--key", "url", "--max-keys", "20", "--name", "visits")


def test_an_open_domain_is_declared_released_and_refused_beyond_its_delta(sparsehist, log):
    """Half of delta, then a share of it, then a threshold that is too low: exit code 3, in the words of options."""
    made = sparsehist("create", "store", "--input", log, *CREATE, "--domain", "open(delta=1e-6)")
    assert made.code == 0
    assert "open(delta='1e-6'), any key" in made.out
    first = sparsehist("release", "store", "--series", "visits", "--name", "first", "--level", "0.1", "--json").json
    assert 3e-7 < first["metadata"]["delta_infinity"] <= 5e-7
    words = ("release", "store", "--series", "visits", "--level", "0.2")
    second = sparsehist(*words, "--name", "second", "--open-delta", "1e-7")
    assert second.code == 0
    assert "delta of the series" in second.out
    low = sparsehist(*words, "--name", "low", "--threshold", "5")
    assert low.code == 3
    assert "remaining delta" in low.err
    assert "--threshold " in low.err
    false_keys = sparsehist(*words, "--name", "low", "--false-keys", "1")
    assert false_keys.code == 2
    assert "no false keys" in false_keys.err
    assert sparsehist("show", "store").code == 0
    assert sparsehist("ledger", "store").code == 0
