"""`python -m regard` is `regard`."""

import sys

from regard.cli.app import main

sys.exit(main())
