"""``python -m structattn.kernels.native``: compile the kernels after an installation without a compiler."""

import sys

from structattn.kernels.native.compile_library import main

if __name__ == "__main__":
    sys.exit(main())
