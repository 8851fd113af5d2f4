"""From a request to a release: lock, draw a round, commit, and only then publish; for cells and for workloads."""
