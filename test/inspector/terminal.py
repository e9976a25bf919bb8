"""Usage: terminal.py ROWS COLUMNS [AFTER=KEYS | AFTER=ROWSxCOLUMNS]... -- COMMAND...

Runs a command on a terminal of that size. AFTER so many screens with the table of `mpicomposite top` KEYS are typed (^C), or the size changes.
Prints "|" and each line of the last screen with a table, ">" and each line that there is in the end, what went wrong with the screen, and "status N".
Understands what `top` sends: up, and erase to the end."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 60  # seconds
TABLE = "ranks are on host"


class Screen:
    def __init__(self, rows, columns):
        self.lines, self.row, self.column, self.first = [[]], 0, 0, 0
        self.last_table = []
        self.faults = set()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.scroll()

    def scroll(self):
        while len(self.lines) <= self.row:
            self.lines.append([])
        self.first = max(self.first, self.row - self.rows + 1)

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
        else:
            if self.column == self.columns:
                self.faults.add("a line is broken")
                self.row, self.column = self.row + 1, 0
                self.scroll()
            line = self.lines[self.row]
            line += " " * (self.column - len(line))
            line[self.column:self.column + 1] = [character]
            self.column += 1
        self.scroll()

    def obey(self, number, letter):
        if letter == "A":
            if self.row - number < self.first:
                self.faults.add("up beyond the first line")
            self.row = max(self.row - number, self.first)
        elif letter == "J":
            self.keep_table()
            del self.lines[self.row][self.column:], self.lines[self.row + 1:]
        else:
            self.faults.add("sequence that ends in " + letter)

    def feed(self, text):
        for part in re.finditer(r"\x1b\[(\d*)([A-Za-z])|(.)", text, re.DOTALL):
            if part[3]:
                self.put(part[3])
            else:
                self.obey(int(part[1] or 0), part[2])

    def text(self, begin=0):
        return ["".join(line) for line in self.lines[begin:]]

    def keep_table(self):
        """A table is whole when it is erased, or when nothing follows: what is read at once may end within one."""
        shown = self.text(self.first)
        if any(TABLE in line for line in shown):
            self.last_table = shown


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def act(terminal, screen, what):
    if "x" in what:
        rows, columns = (int(number) for number in what.split("x"))
        set_size(terminal, rows, columns)
        screen.resize(rows, columns)
    else:
        os.write(terminal, what.replace("^C", "\x03").encode())


def main():
    at = sys.argv.index("--")
    rows, columns = int(sys.argv[1]), int(sys.argv[2])
    acts = [(int(after), what) for after, what in (word.split("=") for word in sys.argv[3:at])]
    process, terminal = pty.fork()
    if process == 0:
        set_size(0, rows, columns)
        # ^C would throw away what was written and has not been read here yet: lines that are then missing on the screen.
        modes = termios.tcgetattr(0)
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(0, termios.TCSANOW, modes)
        os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
    screen, tables, end = Screen(rows, columns), 0, time.monotonic() + LIMIT
    while True:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            os.kill(process, signal.SIGKILL)
            sys.exit("terminal.py: the command has not ended")
        try:
            text = os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        screen.feed(text)
        if TABLE in text:
            tables += 1
        while acts and tables >= acts[0][0]:
            act(terminal, screen, acts.pop(0)[1])
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    screen.keep_table()
    print("\n".join(["|" + line for line in screen.last_table] + [">" + line for line in screen.text()] + sorted(screen.faults) + ["status " + str(status)]))


main()
