"""``python -m hazard``: the same as the command ``hazard``."""

import sys

from hazard.cli import main

if __name__ == "__main__":
    sys.exit(main())
