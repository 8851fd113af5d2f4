"""From a request to a release: ask the ledger, fix what is public, draw, commit, publish."""
