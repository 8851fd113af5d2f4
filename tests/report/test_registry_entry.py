"""The registry's entry: its pinned schema accepts it, it says what the ledger says, and no text in it runs."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from markdown_it import MarkdownIt

import sparsehist as sh
from sparsehist.cli.demonstration import demonstrate

yaml = pytest.importorskip("yaml", reason="registry entries need the extra `report`")
jsonschema = pytest.importorskip("jsonschema")

REGISTRY = Path(__file__).parents[1] / "data" / "registry"
PLANTED = "<script>alert(1)</script> [x](javascript:alert(1)) `a` $x$ https://x.example \u202eb"
ABOUT = {
    "url_slug": "visits",
    "deployment": {
        "basic": {
            "name": "Visits",
            "data_curators": ["An office"],
            "description": "Visits of *areas*, with <b>tags</b> that do not count.",
            "intended_use": "yes",
            "data_product_region": "no",
            "data_product_sector": "Technology",
        },
        "implementation": {"justification": "See https://example.org/paper."},
        "administrative": {"registry_authors": ["1e3", "2026-01-31"]},
    },
}


def _check(text):
    """The entry, if the schema accepts it."""
    schema = yaml.safe_load((REGISTRY / "deployments-schema.yaml").read_text())
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    entry = yaml.safe_load(text)
    assert [error.message for error in validator.iter_errors(entry)] == []
    assert list(validator.iter_errors({**entry, "deployment": {}}))  # it does refuse
    return entry


def _texts(value):
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.fixture
def series(tmp_path):
    """A series with planted column names and reasons."""
    log = pl.DataFrame({"user <b>": range(500), "url](javascript:alert(1))": ["/home"] * 500})
    series = sh.create(
        tmp_path / "s", log, name="visits", unit="user <b>", key="url](javascript:alert(1))", max_keys=1,
        domain=sh.Strings(max_bytes=8), cap=1, chosen_by_looking=PLANTED.replace("\u202e", ""),
    )  # fmt: skip
    series.release("public", level="0.5")
    return series


def test_the_schema_accepts_the_entry_of_the_demonstration(tmp_path):
    """What `make demo` leaves, with every field of the first tier and the numbers of the ledger."""
    demonstrate(tmp_path / "demo")
    entry = _check((tmp_path / "demo" / "entry.yaml").read_text())
    deployment = entry["deployment"]
    everybody = sh.open(tmp_path / "demo" / "store").ledger().filter(scope="everybody").row(0, named=True)
    assert deployment["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        "epsilon": everybody["epsilon"], "delta": 1e-6, "rho": 0.5,
    }  # fmt: skip
    assert deployment["deployment_model"]["release_type"] == "Many releases"
    assert deployment["basic"]["publication_date"] == f"{everybody['first_release']:%Y-%m-%d}"
    assert not [text for text in _texts(entry) if not text.strip()]


def test_missing_and_wrong_fields_are_listed_in_one_error(series, tmp_path):
    """All of them; so are fields that only the store can say, and texts with links that run."""
    about = copy.deepcopy(ABOUT)
    del about["url_slug"], about["deployment"]["basic"]["data_curators"]
    about["deployment"]["basic"]["intended_use"] = 7
    about["deployment"]["privacy_loss"] = {"privacy_parameters": {"epsilon": 0.1}}
    about["deployment"]["administrative"]["sources"] = "[here](java\\script&colon;alert(1))"
    file = tmp_path / "about.yaml"
    file.write_text(yaml.safe_dump(about))
    with pytest.raises(sh.errors.InputError) as refusal:
        series.store.report(format="registry", about=file)
    for named in (
        "lacks url_slug, deployment.basic.data_curators",
        "may not have deployment.privacy_loss.privacy_parameters.epsilon",
        "deployment.basic.intended_use must be text",
        "deployment.administrative.sources: links may not run anything",
    ):
        assert named in str(refusal.value)
    file.write_text("url_slug: visits\na: [")
    with pytest.raises(sh.errors.InputError, match="is not YAML: see line 2"):
        series.store.report(format="registry", about=file)
    file.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(sh.errors.InputError, match="is not YAML"):
        series.store.report(format="registry", about=file)
    for content in ("", "- url_slug"):
        (tmp_path / "b2.yaml").write_text(content)
        with pytest.raises(sh.errors.InputError, match=r"b2\.yaml must be a mapping.*url_slug: and deployment:"):
            series.store.report(format="registry", about=tmp_path / "b2.yaml")
    with pytest.raises(sh.errors.InputError, match="url_slug must be letters"):
        series.store.report(format="registry", about={**ABOUT, "url_slug": "../../etc"})
    for wrong in ({"about": ABOUT}, {"format": "registry"}, {"format": "xml"}):
        with pytest.raises(sh.errors.DeclarationError):
            series.store.report(**wrong)


def test_logs_in_periods_go_on_and_say_what_is_protected(tmp_path):
    """The unit is one in a period where the budget counts so; no limit is said to stand as it does not yet."""
    told = {"unit": "user", "key": "url", "max_keys": 1, "domain": sh.Strings(max_bytes=8)}
    log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
    weeks = sh.create_periodic(tmp_path / "s", name="byday", protects="user-week", most_periods=4, budget="1", **told)
    once = sh.create(weeks.store, log, name="once", population="other", **told)
    once.release("r", level="0.1")
    weeks.add(log, period="2026-W01")
    entry = _check(weeks.store.report(format="registry", about=ABOUT))["deployment"]
    loss, model = entry["privacy_loss"], entry["deployment_model"]
    assert loss["privacy_unit"] == "user in one week, user" or loss["privacy_unit"] == "user, user in one week"
    assert "population byday is rho 1" in loss["privacy_parameters_details"]
    assert "None" not in loss["privacy_parameters_details"]
    details = loss["privacy_unit_details"].replace("\\", "")
    assert "log in weeks, and its budget protects one user-week; one unit counts in at most 4 weeks." in details
    assert "at most 1 key." in details
    assert model["data_source_type"] == "Dynamic"
    assert "each period is counted once" in model["data_source_type_details"]
    assert "Each other series is counted once" in model["data_source_type_details"]


def test_nothing_in_it_runs(series):
    """Rendered as Markdown with HTML allowed, no text becomes a tag, a script or a link that runs."""
    text = series.store.report(format="registry", about=ABOUT)
    entry = _check(text)
    assert "\u202e" not in text
    rendered = "".join(MarkdownIt("commonmark", {"html": True}).enable("table").render(one) for one in _texts(entry))
    assert not any(start in rendered for start in ("<script", "<b>", "<a ", "<img", "<code"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [x](javascript:alert(1)) `a` $x$ https://x.example" in rendered
    assert "<em>areas</em>, with &lt;b&gt;tags&lt;/b&gt;" in rendered
    assert "$" not in rendered.replace("\\$", "").replace("$x$", "")


def test_texts_stay_texts(series):
    """What looks like a number, a truth value or a date in YAML of any version is quoted, and read back as it was."""
    text = series.store.report(format="registry", about=ABOUT)
    entry = yaml.safe_load(text)
    basic = entry["deployment"]["basic"]
    assert (basic["intended_use"], basic["data_product_region"]) == ("yes", "no")
    assert entry["deployment"]["administrative"]["registry_authors"] == ["1e3", "2026-01-31"]
    for quoted in (
        'intended_use: "yes"',
        'data_product_region: "no"',
        '- "1e3"',
        '- "2026-01-31"',
        'publication_date: "20',
    ):
        assert quoted in text


@pytest.mark.parametrize(
    ("noise", "level", "variant", "given"),
    [
        ("laplace", "0.5", "Pure DP", {"epsilon": 0.5}),
        ("gaussian", "0.5", "Zero-concentrated DP", {"rho": 0.5, "delta": 1e-6}),
        ("poisson", "0.01", "Approximate DP", {"delta": 1e-6}),
    ],
)
def test_the_variant_is_that_of_everything_together(noise, level, variant, given):
    """Of one family its own; beside an open domain's delta (epsilon, delta) only."""
    log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
    series = sh.create(
        ":memory:",
        log,
        name="visits",
        unit="user",
        key="url",
        max_keys=1,
        domain=sh.Strings(max_bytes=8),
        noise=noise,
    )
    series.release("public", level=level)
    loss = yaml.safe_load(series.store.report(format="registry", about=ABOUT))["deployment"]
    assert loss["dp_variant"]["variant_name"] == variant
    parameters = loss["privacy_loss"]["privacy_parameters"]
    assert given.items() <= parameters.items()
    if noise == "gaussian":
        opened = sh.create(
            series.store, log, name="open", unit="user", key="url", max_keys=1, domain=sh.Open(delta="1e-8")
        )
        opened.release("keys", level="0.5")
        loss = _check(series.store.report(format="registry", about=ABOUT))["deployment"]
        assert loss["dp_variant"]["variant_name"] == "Approximate DP"
        assert set(loss["privacy_loss"]["privacy_parameters"]) == {"epsilon", "delta"}


def test_the_command_writes_it(series, tmp_path):
    """To a .yaml file; what is missing is exit code 2, and nothing is written."""
    about, out = tmp_path / "about.yaml", tmp_path / "entry.yaml"
    words = [sys.executable, "-m", "sparsehist", "report", str(series.store.path), "--format", "registry"]
    words += ["--about", str(about), "--out", str(out)]
    about.write_text("url_slug: visits")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "deployment.basic.name" in done.stderr
    assert not out.exists()
    about.write_text(yaml.safe_dump(ABOUT))
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    _check(out.read_text())
