"""`python -m kvlab` is `kvlab`."""

from kvlab.cli import main

if __name__ == "__main__":
    main()
