"""`python -m app` is `hardsplat`."""

import sys

from app.cli import main

sys.exit(main())
