"""`python -m fairlead.cli` is `fairlead`, where scripts are not on the path."""

import sys

from fairlead.cli.main import main

sys.exit(main())
