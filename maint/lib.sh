# shellcheck shell=bash
# Shell functions shared by maint/demo and maint/check: long steps with progress, and the way from a fresh clone to an
# installed MPI. Sourced by bash, in the top directory, after `set -u`.

jobs=$(nproc)

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# choose_directories USAGE [--build DIR] [--prefix DIR]: sets build and logs, and wanted_prefix, which is empty when it shall stay what
# it is; then goes to the source tree by the path that it is built by.
choose_directories() {
    local usage=$1 dir=
    wanted_prefix=
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            --build=* | --prefix=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
            --build | --prefix)
                [ -n "${2-}" ] || fail "$1 needs a directory. $usage"
                # As they are meant where the command was called.
                case $2 in /*) ;; *) set -- "$1" "$called_in/$2" "${@:3}" ;; esac
                if [ "$1" = --build ]; then dir=$2; else wanted_prefix=$2; fi
                shift 2
                ;;
            *) fail "'$1' is not understood. $usage" ;;
        esac
    done
    build=$(maint/build-directory "$dir") || exit 1
    [ ! -e "$build/source" ] || cd "$build/source" || exit 1
    logs=$build/log
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# progress NAME SECONDS TOTAL PATTERN LOG: what runs, how far it is, how long so far. Where no pattern tells how far, the
# last line of the log does.
progress() {
    local how_far count
    if [ -n "$4" ]; then
        count=$(grep -cE "$4" "$5")
        how_far="$count of about $3"
        if [ "$count" -ge "$3" ]; then how_far=$count; fi
    else
        how_far="at: $(tail -n 1 "$5" | tr -d '\r' | cut -c1-60)"
    fi
    printf '  %-28s %6s  %s' "$1" "$(clock "$2")" "$how_far"
}

# step NAME LIMIT TOTAL PATTERN COMMAND...: runs COMMAND for at most LIMIT seconds, with all output in NAME's log and one line
# of progress on the screen: rewritten on a terminal, a new one now and then elsewhere. Each line of the log that matches
# PATTERN counts as one of about TOTAL pieces of work. Returns the status of COMMAND.
step() {
    local name=$1 limit=$2 total=$3 pattern=$4 log=$logs/${1//[ \/]/-}.log start=$SECONDS next=20 pid status=0
    shift 4
    mkdir -p "$logs" || fail "cannot make the directory $logs"
    : >"$log" || fail "cannot write $log"
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    # timeout has a process group of its own, so an interrupt of ours must be handed on.
    trap 'kill -TERM $pid 2>/dev/null; wait $pid 2>/dev/null; exit 130' INT TERM HUP
    while kill -0 $pid 2>/dev/null; do
        if [ -t 1 ]; then
            printf '\r%s\033[K' "$(progress "$name" $((SECONDS - start)) "$total" "$pattern" "$log")"
        elif [ $((SECONDS - start)) -ge $next ]; then
            progress "$name" $((SECONDS - start)) "$total" "$pattern" "$log"
            echo
            next=$((next + 20))
        fi
        sleep 0.3
    done
    wait $pid || status=$?
    trap - INT TERM HUP
    step_line=$(printf '  %-28s %6s ' "$name" "$(clock $((SECONDS - start)))")
    [ ! -t 1 ] || printf '\r\033[K'
    step_log=$log
    return $status
}

# must_step ...: a step without which there is no going on.
must_step() {
    local status=0
    step "$@" || status=$?
    if [ $status -eq 0 ]; then
        echo "$step_line  done"
        return
    fi
    echo "$step_line  failed"
    echo "The last lines of $step_log:" >&2
    tail -n 15 "$step_log" | sed 's/^/    /' >&2
    [ $status -ne 124 ] || echo "It was stopped after its time limit of $2 seconds." >&2
    [ "$(df -Pm "$build" | awk 'NR == 2 { print $4 }')" -ge 50 ] || echo "The disk of $build is full." >&2
    fail "the step '$1' failed; all of its output is in $step_log"
}

# install_packages GROUP...: what is missing of these groups of maint/requirements, with apt.
install_packages() {
    local packages
    packages=$(maint/missing --packages "$@" | sort -u | tr '\n' ' ')
    packages=${packages% }
    [ -n "$packages" ] || return 0
    maint/missing "$@" | sed 's/^/  /'
    if ! command -v apt-get >/dev/null; then
        fail "there is no apt-get here: install what the lines above name, then run this again."
    elif [ "$(id -u)" -ne 0 ]; then
        fail "please run: sudo apt-get install $packages; then run this again."
    fi
    echo "  installing with apt: $packages"
    export DEBIAN_FRONTEND=noninteractive
    # The lists of a fresh machine or container are empty or old; when they cannot be read, installing will say so.
    step "update package lists" 600 0 "" apt-get -q update || true
    # shellcheck disable=SC2086
    must_step "install packages" 1800 0 "" apt-get -q -y --no-install-recommends install $packages
}

# install_extra: what some tests need that are otherwise skipped, where that asks nobody for anything.
install_extra() {
    local packages package
    packages=$(PATH=$PATH:/usr/sbin:/sbin maint/missing --packages extra | sort -u | tr '\n' ' ')
    [ -n "$packages" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if ! step "install what more tests need" 900 0 "" apt-get -q -y --no-install-recommends install $packages; then
        # One that is not to be had is no reason to do without the others.
        for package in $packages; do
            step "install $package" 300 0 "" apt-get -q -y --no-install-recommends install "$package" || echo "$step_line  not to be had"
        done
    fi
    echo "$step_line  ${packages% }"
}

# The way from a clone to an installed MPI. Each step that has been done before takes no time. Where `tests` is not empty those of the
# core are built, too, while MPICH's generators and configure keep only one processor busy.
set_up() {
    install_packages "$@"
    if [ ! -f configure ] || [ configure.ac -nt configure ] || [ Makefile.am -nt Makefile.in ]; then
        must_step "make configure" 300 0 "" autoreconf -i
    fi
    prefix=$(sed -n 's/^prefix = //p' "$build/Makefile" 2>/dev/null)
    if [ ! -f "$build/Makefile" ] || [ configure -nt "$build/config.status" ] || [ "$prefix" != "${wanted_prefix:-$prefix}" ]; then
        # A prefix that was chosen before is kept.
        local configure=$PWD/configure to=${wanted_prefix:-$prefix}
        [ "$build" != "$PWD/_build" ] || configure=../configure
        must_step "configure" 600 0 "" env -C "$build" "$configure" ${to:+"--prefix=$to"}
    fi
    local make="make -C $build --no-print-directory -j$jobs"
    must_step "fetch MPICH" 1800 0 "" $make stamp/source
    must_step "graft and generate" 1800 0 "" $make stamp/autogen ${tests:+check-libraries}
    must_step "configure MPICH${tests:+, build tests}" 3600 1480 '^checking ' $make stamp/configure ${tests:+check-programs}
    # How many files there are is known for a whole build only.
    local files=0
    [ -e "$build/mpich/lib/libmpi.la" ] || files=1330
    must_step "build" 7200 $files '^  (CC|CXX|FC|F77|MOD|GEN|CCLD|CXXLD|F77LD|FCLD) ' $make all
    must_step "install" 600 0 "" $make install
    prefix=$(sed -n 's/^prefix = //p' "$build/Makefile")
}
