"""`python -m hardsplat` is the command `hardsplat`."""

import sys

from hardsplat.cli import main

sys.exit(main())
