"""`python -m domain.migrations`: bring the database at CAIRN_ADMIN_URL up to date."""

import os
import sys

from domain.migrations import upgrade

if "CAIRN_ADMIN_URL" not in os.environ:
    sys.exit("Set CAIRN_ADMIN_URL to the database as a role that may create roles, schemas and extensions.")
upgrade(os.environ["CAIRN_ADMIN_URL"])
