"""What releases would do, before they are made: from public parameters only."""
