"""Names the packages; everything else is declared in pyproject.toml."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["sparsehist", "sparsehist.*"]), "sparsehist.sql", "sparsehist.data"])
