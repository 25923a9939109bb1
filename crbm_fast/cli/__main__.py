"""`python -m crbm_fast.cli` is `crbm-fast`."""

import sys

from crbm_fast.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
