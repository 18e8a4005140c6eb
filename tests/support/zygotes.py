"""Children for tests of GDAL tries: a zygote that knows the probes, and what makes a cold child know them."""

import os
import socket
import subprocess
import sys
import time
from uuid import uuid4

from deployments.stack.owner import tied
from flows.tries.fork_client import ADDRESS

MODULE = "flows.tries.process_child"
CHILD = f"from tests.support import probes; probes.declare(); from {MODULE} import main; main()"


FRESH = f"""
import subprocess
real = subprocess.Popen
def popen(command, **options):
    return real([command[0], "-c", {CHILD!r}] if command[1:] == ["-m", {MODULE!r}] else command, **options)
subprocess.Popen = popen
"""
ZYGOTE = """
import sys
from importlib import import_module
from deployments.warm import zygote
zygote.PRELOADED = ()
zygote.code_version = lambda: "the same"
zygote._forget_environment()  # before anything is imported that would start threads
zygote._forget_environment = lambda: None
import_module(sys.argv[1]).declare()
zygote.main()
"""


class Zygote:
    """A running zygote that knows the probes of a module and has a secret; of the pool `gdal`, with GDAL loaded."""

    def __init__(self, probes: str = "tests.support.probes", pool: str = "light") -> None:
        self.name = f"cairn-test-{uuid4().hex}"
        environment = {ADDRESS: self.name, "PATH": os.environ["PATH"], "CAIRN_WORKER_TOKEN": "canary"}
        self.process = subprocess.Popen(tied(sys.executable, "-c", ZYGOTE, probes, pool), env=environment)
        deadline = time.monotonic() + 180
        while not self.listens():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex("\0" + self.name) == 0

    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
