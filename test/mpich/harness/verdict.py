"""Did a test pass?  The rules of MPICH's suite, as pure functions of what the job printed and how it ended.

A test passes when it prints `No Errors` exactly once and nothing else, and mpiexec exits with 0.  The attribute resultTest
of a list replaces this rule for tests that must fail:
  TestStatus, TestErrFatal   mpiexec must not exit with 0; any output is good
  TestStatusNoErrors         mpiexec must not exit with 0, and nothing but `No Errors` is printed

Unlike the suite's own runner, a job that had to be stopped has failed under every rule: a hang is no error status.
"""

import re

NO_ERRORS = re.compile(r"^\s*No [Ee]rrors\s*$")
HARMLESS = re.compile(r"^\s*Test Passed\s*$|FORTRAN STOP")

# The one test that must be stopped by mpiexec's own time limit.
MUST_TIME_OUT = ("init/timeout",)


def why_failed(result_rule, output, exit_status):
    """None for a pass, otherwise the reason in one line."""
    if result_rule in ("TestStatus", "TestErrFatal"):
        return None if exit_status != 0 else "mpiexec exited with 0, but an error status is required"

    successes, unexpected = 0, []
    for line in output.splitlines():
        if NO_ERRORS.match(line):
            successes += 1
        elif not HARMLESS.search(line):
            unexpected.append(line)
    if unexpected:
        # The cause is often the last line of an error stack.
        text = " / ".join(line.strip() for line in unexpected if line.strip()) or "(an empty line)"
        return f"unexpected output: {text[:400]}"
    if successes == 0:
        return f"ended without 'No Errors', exit status {exit_status}"

    if result_rule == "TestStatusNoErrors":
        return None if exit_status != 0 else "mpiexec exited with 0, but an error status is required"
    if result_rule:
        raise ValueError(f"unknown resultTest '{result_rule}'")
    if successes > 1:
        return f"'No Errors' was printed {successes} times"
    return None if exit_status == 0 else f"printed 'No Errors', then exit status {exit_status}"
