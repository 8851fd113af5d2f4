"""`python -m sparsehist.cli`, where the script is not on the path."""

from sparsehist.cli import main

main()
