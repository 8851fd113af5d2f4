"""Run the command line with `python -m sparsehist`, which works even if `sparsehist` is not on the PATH."""

from sparsehist.cli import main

if __name__ == "__main__":
    main()
