# For scripts that test: what each check found, counted. Whoever reads this file is in a folder that it may write to, and may have
# set `pattern`: only checks whose names contain it are made.
# shellcheck shell=bash
passed=0 failed=0 skipped=0 skipping=

# check NAME COMMAND...: passes when the command, a function or program, succeeds.
check() {
    local name=$1
    shift
    [[ $name == *"${pattern-}"* ]] || return 0
    if [ -n "$skipping" ]; then
        skipped=$((skipped + 1))
    elif "$@" >output 2>&1; then
        passed=$((passed + 1)); echo "ok      $name"
    else
        failed=$((failed + 1)); echo "FAILED  $name
$(tail -20 output | sed 's/^/        /')"
    fi
}

# at_once "FUNCTION..."...: each list in a process and a folder of its own, with the programs of this one, all lists at the same time.
at_once() {
    local list each found running=()
    trap 'kill "${running[@]}"; wait; exit 130' INT TERM HUP
    rm -rf "${@// /-}"
    mkdir "${@// /-}" || exit 1
    for list; do
        (
            cd "${list// /-}" && find .. -maxdepth 1 -type f -perm -u+x -exec ln -s {} . \; || exit 1
            passed=0 failed=0 skipped=0
            for each in $list; do $each; done
            echo $passed $failed $skipped >found
        ) &
        running+=($!)
    done
    wait
    trap - INT TERM HUP
    for list; do
        found=$(cat "${list// /-}/found") || { echo "FAILED  $list: ended early"; found="0 1 0"; }
        # shellcheck disable=SC2086 # three numbers
        set -- $found
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    done
}

# skip_from_here SENTENCE: checks are only counted from now on, as skipped; with an empty sentence they are made again.
skip_from_here() {
    skipping=$1
    [ -z "$skipping" ] || echo "skipped $skipping"
}

# apart OPTIONS COMMAND...: unshare, as root of a user namespace where we are not root.
apart() { if [ "$(id -u)" -eq 0 ]; then unshare "$@"; else unshare --map-root-user "$@"; fi; }

# without_shm COMMAND...: where /dev has nothing but null.
without_shm() {
    : >null
    apart -m sh -c 'mount --bind /dev/null null && mount -t tmpfs -o size=4k none /dev && : >/dev/null && mount --bind null /dev/null && "$@"' sh "$@"
}

# refused TEXT COMMAND...: the command must fail, before its time limit, with TEXT in what it says.
refused() {
    local text=$1 status
    shift
    "$@" >said 2>&1
    status=$?
    cat said
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ $status -ne 137 ] && grep -q -e "$text" said
}

# same EXPECTED COMMAND...: the command must succeed and print this.
same() {
    local expected=$1 got
    shift
    got=$("$@") || return 1
    echo "expected '$expected', got '$got'"
    [ "$got" = "$expected" ]
}

# wait_for TEXT FILE COUNT: until it is there so often; bounded.
wait_for() {
    local tries=0
    until [ "$(grep -c -e "$1" "$2")" -ge "$3" ]; do
        tries=$((tries + 1)); [ $tries -lt 600 ] || return 1
        read -r -t 0.1 <> <(:) || true
    done
}

# gone PROCESS...: they end, or have ended; bounded. What is left is killed.
gone() {
    local tries=0 left process
    while :; do
        left=
        for process; do
            [ ! -e "/proc/$process" ] || grep -q '^State:.*[ZX] (' "/proc/$process/status" 2>/dev/null || left="$left $process"
        done
        [ -n "$left" ] || return 0
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { echo "still there:$left"; kill -KILL $left; return 1; }
        read -r -t 0.1 <> <(:) || true
    done
}

# The last line of a suite, and its status.
summary() {
    local also=
    [ $skipped -eq 0 ] || also=", $skipped skipped"
    echo "$passed passed, $failed failed$also"
    [ $failed -eq 0 ]
}
