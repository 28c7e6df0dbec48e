"""`python -m attnscope.cli`."""

from attnscope.cli import main

if __name__ == "__main__":
    main()
