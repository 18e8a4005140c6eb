"""Extras keep images honest: each room runs with what its extra installs, and with nothing else.

Every distribution outside the extra's closure is made unimportable, as if it were not installed.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = "cairn-platform"
# Zones in a storage account: the client is made, and nothing asked.
AZURE = "from flows.storage.account import Account; Account(url='https://a.blob.core.windows.net').client"
# What each image runs; see Dockerfile and Dockerfile.worker.
ROOMS = {
    "gateway": "import gateway.app",
    "domain": "import domain.app, domain.relay, domain.migrations, flows.compiler\n" + AZURE,
    "light": "from flows import catalog; catalog.flow('hello_world'); catalog.flow('segment')\n"
    "import flows.handlers.stac.staging, blocks.storage, deployments.cli.worker, deployments.workers.serve\n"
    "import blocks.azure, deployments.workers.inline\n" + AZURE,
