"""What a person watching sees: what runs, how far it is, how long it has taken.

On a terminal one line is rewritten every second; elsewhere (a log, CI) a line is printed every 20 seconds.  Lines given to
say() are printed above it at once.
"""

import shutil
import sys
import threading
import time

LINE_EVERY_SECONDS = 20


def clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    """Use as a context.  `describe` returns the state in one line, without the time."""

    def __init__(self, describe):
        self._describe = describe
        self._started = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._erase()

    @property
    def seconds(self):
        return time.monotonic() - self._started

    def say(self, text):
        with self._lock:
            self._erase()
            print(text, flush=True)

    def _erase(self):
        if self._terminal:
            print("\r\033[K", end="", flush=True)

    def _tick(self):
        while not self._done.wait(1 if self._terminal else LINE_EVERY_SECONDS):
            line = f"[{clock(self.seconds)}] {self._describe()}"
            with self._lock:
                if self._terminal:
                    width = shutil.get_terminal_size().columns - 1
                    print(f"\r\033[K{line[:width]}", end="", flush=True)
                else:
                    print(line, flush=True)
