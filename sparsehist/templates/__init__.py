"""Templates of HTML pages and of SQL, as data files of the package."""
