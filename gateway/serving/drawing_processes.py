"""Heavy pictures are drawn in processes of their own, which let everybody else go first: who asks for a tile meanwhile
gets it as soon as ever.

Knows nothing of rasters. A process is started when it is first needed, kept, and killed where it takes too long.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import subprocess
import sys
from typing import IO, Final, cast

from pydantic import ValidationError

from gateway.serving.drawing_orders import LONGEST_LINE, READY, Drawn, Order
from gateway.serving.drawing_turns import Turns
from gateway.serving.problems import BUSY, INTERNAL, TOO_SLOW

_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "TMPDIR")
_SMALL_CACHE: Final = {"GDAL_CACHEMAX": "128"}  # MB; of a machine's memory GDAL would take a twentieth
_PIPE_BYTES: Final = 1024**2  # as much as anybody may ask for
_START_SECONDS: Final = 120.0
_log = logging.getLogger("cairn.serving")


class Ended(Exception):
    """The process has gone, or says what it should not."""


class DrawingProcess:
    """One process and the pipes to it. What blocks is called in threads."""

    def __init__(self, most_bytes: int, niceness: int) -> None:
        command = [sys.executable, "-m", "gateway.serving.drawing", str(most_bytes), str(niceness)]
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _SMALL_CACHE
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def _answers(self) -> IO[bytes]:
        return cast("IO[bytes]", self.process.stdout)

    def begin(self) -> None:
        """Blocks until it can be asked."""
        if self._answers.readline(LONGEST_LINE) != READY:
            raise Ended

    def draw(self, order: Order) -> tuple[Drawn, bytes]:
        """Blocks until the picture is there."""
        orders = cast("IO[bytes]", self.process.stdin)
        try:
            orders.write(order.model_dump_json().encode() + b"\n")
            orders.flush()
            drawn = Drawn.model_validate_json(self._answers.readline(LONGEST_LINE))
        except (OSError, ValidationError):
            raise Ended from None
        if len(body := self._answers.read(drawn.size_bytes)) < drawn.size_bytes:
            raise Ended
        return drawn, body

    def end(self) -> None:
        """Whatever it was doing. Who still reads from it reads its end before the pipes are closed."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not take any more
                    pipe.close()


class HeavyPictures:
    """So many drawing processes at the most, whose turns go around among the readers."""

    def __init__(
        self, processes: int, most_bytes: int, niceness: int, draw_seconds: float, patience_seconds: float
    ) -> None:
        self.turns = Turns(processes, patience_seconds)
        self._limits, self._draw_seconds = (most_bytes, niceness), draw_seconds
        self._all: set[DrawingProcess] = set()
        self._idle: list[DrawingProcess] = []

    async def draw(self, order: Order) -> tuple[Drawn, bytes]:
        """The picture. Whoever calls holds a place among the turns."""
        drawing = await self._process()
        try:
            async with asyncio.timeout(self._draw_seconds):
                answer = await asyncio.to_thread(drawing.draw, order)
        except TimeoutError:
            self._end(drawing)
            raise TOO_SLOW from None
        except Ended:
            self._end(drawing)
            _log.error("a drawing process ended", extra={"code": drawing.process.returncode})
            raise INTERNAL from None
        except BaseException:
            self._end(drawing)
            raise
        self._idle.append(drawing)
        return answer

    async def _process(self) -> DrawingProcess:
        """One that waits for work, else a new one."""
        while self._idle:
            drawing = self._idle.pop()
            if drawing.process.poll() is None:
                return drawing
            self._end(drawing)
        drawing = await asyncio.to_thread(DrawingProcess, *self._limits)
        self._all.add(drawing)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.to_thread(drawing.begin)
        except BaseException as error:
            self._end(drawing)
            if isinstance(error, Ended | TimeoutError):
                _log.error("a drawing process did not start", extra={"code": drawing.process.returncode})
                raise BUSY from None
            raise
        return drawing

    def _end(self, drawing: DrawingProcess) -> None:
        drawing.end()
        self._all.discard(drawing)

    def close(self) -> None:
        """End all of them."""
        for drawing in list(self._all):
            self._end(drawing)
        self._idle.clear()
