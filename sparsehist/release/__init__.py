"""Make a release from a request: check the ledger, fix the public parameters, draw, commit, publish."""
