"""Run the command line with `python -m sparsehist`, even if the script `sparsehist` is not on the PATH."""

from sparsehist.cli import main

if __name__ == "__main__":
    main()
