"""`python -m sparsehist`, where the script is not on the path."""

from sparsehist.cli import main

if __name__ == "__main__":
    main()
