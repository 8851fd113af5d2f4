"""The log that ships with the package, for the demonstration and the tests; see README.md beside it."""
