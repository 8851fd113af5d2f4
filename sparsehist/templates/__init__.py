"""Templates of HTML, as data of the package."""
