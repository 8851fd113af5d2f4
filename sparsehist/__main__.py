"""Run the command line by `python -m sparsehist`, also if the script is not on the path."""

from sparsehist.cli import main

if __name__ == "__main__":
    main()
