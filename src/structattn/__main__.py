"""``python -m structattn``: the command line where no script is on the path, as under ``accelerate launch -m``."""

import sys

from structattn.cli import main

if __name__ == "__main__":
    sys.exit(main())
