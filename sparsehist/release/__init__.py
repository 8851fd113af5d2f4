"""Make a release from a request: check the ledger, fix the public parameters, draw the noise, commit and publish."""
