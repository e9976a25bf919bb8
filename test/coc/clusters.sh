# The part of test/coc/run that runs on test/coc/figure-3: 16 ranks in cluster A, two on a host, four in cluster B, one on a host.
# Two of A talk over UCX and san-a, two of B over UCX and san-b, others over UDP and lan.
# shellcheck shell=bash disable=SC2154 # what is not set here, test/coc/run sets
figure_hosts=a0:2,a1:2,a2:2,a3:2,a4:2,a5:2,a6:2,a7:2,b0:1,b1:1,b2:1,b3:1
# These hosts share the cores of one machine, which no rank can know.
export MPIR_CVAR_CH4_COMPOSITE_WAIT=sleep

# described [SETTING=VALUE...] ARGUMENTS...: with the networks of the figure.
described() { with NETWORKS="$here/figure-3.networks" "$@"; }
# all_ranks [SETTING=VALUE...] PROGRAM...: 20 of them, placed as in the figure.
all_ranks() {
    local settings=()
    while [[ $1 =~ ^[A-Z_]+= ]]; do settings+=("$1"); shift; done
    described "${settings[@]}" -hosts $figure_hosts -n 20 "$@"
}

# routes FILE: those in the JSON, one a line: from, to, device, network, channel, bytes.
routes() {
    python3 - "$1" <<'PYTHON'
import json, sys
for rank in json.load(open(sys.argv[1]))["ranks"]:
    for route in rank["routes"]:
        print(rank["rank"], route["to"], route["device"], route["network"] or "-", route["channel"], route["bytes"])
PYTHON
}
# sums FILE: device, network, bytes sent by the routes, sent and received by the devices.
sums() {
    python3 - "$1" <<'PYTHON'
import collections, json, sys
sums = collections.defaultdict(lambda: [0, 0, 0])
for rank in json.load(open(sys.argv[1]))["ranks"]:
    for route in rank["routes"]:
        sums[route["device"], route["network"]][0] += route["bytes"]
    for device in rank["devices"]:
        sums[device["device"], device["network"]][1] += device["bytes_sent"]
        sums[device["device"], device["network"]][2] += device["bytes_received"]
for (device, network), bytes in sums.items():
    print(device, network or "-", *bytes)
PYTHON
}

# ---- the table ----
printed() { all_ranks ROUTES="$1" ./hello >said && grep -v -e '^hello: ' -e ' carried ' said | diff "$here/figure-3.routes" -; }
check "figure 3: the table at the end is the paper's" printed text
check "figure 3: the table at the start is the paper's" printed init
in_json() {
    all_ranks ROUTES=json ./hello >said && grep -v '^hello: ' said >routes.json && routes routes.json >pairs || return 1
    awk 'NR == FNR { if (NF == 21) for (to = 0; to < 20; to++) table[$1, to] = $(to + 2); next }
        { letter = $3 == "shmem" ? "S" : $3 == "ucx" ? "X" : $3 == "udp" ? "U" : "?" }
        { network = letter == "S" ? "-" : letter == "U" ? "lan" : $1 < 16 ? "san-a" : "san-b" }
        table[$1, $2] != letter $5 || $4 != network { print "not in the table: " $0; wrong++ }
        END { exit wrong || FNR != 20 * 19 }' "$here/figure-3.routes" pairs
}
check "figure 3: JSON says the same" in_json

# ---- programs ----
for program in exchange collectives window; do check "figure 3: $program, 20 ranks" all_ranks ./$program; done
check "figure 3: random collectives, 20 ranks" all_ranks ./random_collectives --seed $((seed + 1)) --steps $((rounds / 4))
check "figure 3: random collectives in flight, 20 ranks" all_ranks ./random_collectives --seed $((seed + 6)) --steps $((rounds / 4)) --all flight
check "figure 3: persistent, 20 ranks" all_ranks ./persistent any_order often freed
check "figure 3: mcast, 20 ranks" all_ranks ./mcast sizes delivered order communicators random --count 500
check "figure 3: fuzzy, 20 ranks" all_ranks ./fuzzy one_at_a_time skew communicators
check "figure 3: notify, 20 ranks" all_ranks ./notify litmus sizes datatypes counters one_word copies broadcasts rendezvous --rounds $((rounds / 3))
anyone() {
    all_ranks ROUTES=routes.json ./anysource && routes routes.json >pairs || return 1
    awk '$2 == 0 && $6 > 0 { devices[$3]++ } END { exit devices["shmem"] != 1 || devices["ucx"] != 14 || devices["udp"] != 4 }' pairs
}
check "figure 3: anyone is heard, over three devices at once" anyone

# ---- each network carries its own traffic ----
# counters: network, bytes sent and received since `up`, as the kernels of all hosts count them.
counters() {
    local host
    for host in $(cluster hosts); do
        # shellcheck disable=SC2016 # for the shell in the host
        cluster exec "$host" sh -c 'cd /sys/class/net && for network in [!l]* lan; do
            echo "$network $(cat "$network/statistics/tx_bytes") $(cat "$network/statistics/rx_bytes")"; done'
    done | awk '{ sent[$1] += $2; received[$1] += $3 } END { for (each in sent) print each, sent[each], received[each] }'
}
# only NETWORK PAIRS HOW: when ranks that are PAIRS pairs talk HOW (see test/mpi/clusters.c), the payload is on this network and on no
# other. The start of a job is seen on lan, a thing or two of the kernel on each.
only() {
    local network=$1 bytes=$((12000000 / $2)) payload
    payload=$((bytes * $2))
    counters >before
    all_ranks ./clusters "$3" 16 $bytes || return 1
    counters >after
    awk -v wanted="$network" -v payload=$payload 'NR == FNR { sent[$1] = $2; received[$1] = $3; next }
        { sent[$1] = $2 - sent[$1]; received[$1] = $3 - received[$1] }
        { print "kernel: " $1 " sent " sent[$1] " and received " received[$1] " bytes of " payload }
        $1 == wanted { wrong += sent[$1] < payload || sent[$1] > 1.2 * payload || received[$1] < payload; next }
        { wrong += sent[$1] > ($1 == "lan" ? payload / 10 : 5000) }
        END { exit wrong || FNR != 3 }' before after || return 1
    all_ranks ROUTES=routes.json ./clusters "$3" 16 $bytes && sums routes.json >sums.out || return 1
    awk -v wanted="$network" -v payload=$payload '
        { print "report: " $0 " bytes of " payload; wrong += $3 != $4 || $4 != $5 }
        $2 == wanted { found++; wrong += $3 < payload || $3 > 1.01 * payload; next }
        $1 != "shmem" { wrong += $3 > payload / 100 }
        END { exit wrong || found != 1 }' sums.out
}
check "figure 3: within A only san-a carries" only san-a $((16 * 14)) first
check "figure 3: within B only san-b carries" only san-b $((4 * 3)) second
check "figure 3: between A and B only lan carries" only lan $((2 * 16 * 4)) between

# Both by UDP, which has one socket for all of its networks: the one of higher priority carries, whichever that is.
# carries NETWORK PRIORITY PRIORITY: of san-a and lan.
carries() {
    local network=$1 payload=2000000
    counters >before
    with NETWORKS="network san-a udp 10.78.0.0/24 priority $2;network lan udp 10.77.0.0/24 priority $3" -hosts a0,a1 -n 2 ./clusters first 2 $((payload / 2)) || return 1
    counters >after
    awk -v wanted="$network" -v payload=$payload 'NR == FNR { sent[$1] = $2; next }
        { sent[$1] = $2 - sent[$1]; print "kernel: " $1 " sent " sent[$1] " bytes of " payload }
        { wrong += $1 == wanted ? sent[$1] < payload : sent[$1] > payload / 10 }
        END { exit wrong || FNR != 3 }' before after
}
check "figure 3: of two networks of UDP the one of higher priority carries" carries san-a 9 1
check "figure 3: and the other one, when that has it" carries lan 1 9

# ---- networks that nobody described ----
found() {
    all_ranks NETWORKS=auto DEVICES=shmem,ucx,udp ROUTES=routes.json ./collectives && routes routes.json >pairs || return 1
    awk '{ one = $1 < 16; other = $2 < 16; same = one && other && int($1 / 2) == int($2 / 2) }
        same != ($3 == "shmem") || (!same && $3 != "ucx") || (one != other && $4 != "10.77.0.0/24") { print "not expected: " $0; wrong++ }
        END { exit wrong || FNR != 20 * 19 }' pairs
}
check "figure 3: networks are found" found
by_default() {
    all_ranks NETWORKS=auto ROUTES=routes.json ./hello && routes routes.json >pairs || return 1
    awk '$1 < 16 && $2 < 16 && int($1 / 2) == int($2 / 2) { wrong += $3 != "shmem"; next } { wrong += $3 != "udp" } END { exit wrong }' pairs
}
check "figure 3: UDP, where nobody asks for UCX over TCP" by_default

# ---- mistakes and faults ----
# told LINE TEXT LINES...: a description with these lines is refused; LINE and what is wrong are told.
told() {
    local line=$1 text=$2
    shift 2
    printf '%s\n' "$@" >mistake.networks
    refused "mistake.networks:$line: $text" with NETWORKS=mistake.networks -hosts a0,b0 -n 2 ./hello
}
check "figure 3: an unknown device is told" told 2 'unknown device "myrinet" of network "san-a"; allowed are ucx, udp' \
    "network lan udp 10.77.0.0/24" "network san-a myrinet 10.78.0.0/24"
check "figure 3: what is no subnet is told" told 1 '"10.77.0.0/33" of network "lan" is not a subnet; allowed are those such as' \
    "network lan udp 10.77.0.0/33"
check "figure 3: an unknown line is told" told 3 'unknown word "host"; a line starts with network' \
    "# nothing" "network lan udp 10.77.0.0/24" "host a0 lan"
check "figure 3: a priority out of range is told" told 1 'the priority of network "lan" is "high"; allowed are whole numbers from 0 to 1000' \
    "network lan udp 10.77.0.0/24 priority high"
check "figure 3: a missing file is told" refused 'reading the description of networks "missing.networks": No such file' \
    with NETWORKS=missing.networks -hosts a0,b0 -n 2 ./hello

san_a="network san-a ucx 10.78.0.0/24" san_b="network san-b ucx 10.79.0.0/24"
apart() {
    refused "no network joins the hosts \(a[0-7] and b[0-3]\|b[0-3] and a[0-7]\): " all_ranks NETWORKS="$san_a;$san_b" ./hello &&
        grep -q -e "a[0-7] is on san-a (ucx)" said && grep -q -e "b[0-3] is on san-b (ucx)" said
}
check "figure 3: clusters that no network joins are told" apart
check "figure 3: a host that should be on a network, and is not, is told" \
    refused "host b0 is among the hosts of network \"san-a\", but none of its ports leads there" all_ranks NETWORKS="$san_a hosts a*,b0;$san_b" ./hello

# with_stranger COMMAND...: while a stranger has the only port on a1 that UCX may use for san-a: below those that the kernel gives to
# connections, which nobody else has, and another one each time, as that of an ended connection stays taken for a while.
port=20700
with_stranger() {
    local stranger status
    port=$((port + 1))
    : >stranger.out
    "$here/cluster" --name "$cluster_name" exec a1 python3 -c '
import socket, sys, time
stranger = socket.create_server(("10.78.0.2", int(sys.argv[1])))
print("listening", flush=True)
time.sleep(600)' $port >stranger.out 2>&1 &
    stranger=$!
    wait_for listening stranger.out 1 && UCX_TCP_PORT_RANGE=$port-$port "$@"
    status=$?
    kill $stranger
    wait $stranger
    return $status
}
skipped() {
    with_stranger described ROUTES=routes.json -hosts a0,a1,a2 -n 3 ./exchange >said 2>&1 || { cat said; return 1; }
    cat said
    [ "$(grep -c '^composite: on host a1: network san-a is not used: ucx: ' said)" -eq 1 ] && [ "$(grep -c 'is not used' said)" -eq 1 ] &&
        routes routes.json >pairs && same "0 1 lan,0 2 san-a,1 0 lan,1 2 lan,2 0 san-a,2 1 lan" paste -sd , <(cut -d ' ' -f 1,2,4 pairs)
}
check "figure 3: a device that does not open is told, and the next network used" skipped
not_skipped() {
    refused "no network joins the hosts a[01] and a[01]: .*a1 is on no network" \
        with_stranger with NETWORKS="$san_a" -hosts a0,a1 -n 2 ./hello && grep -q "network san-a is not used: ucx: " said
}
check "figure 3: a device that does not open is an error where there is no other" not_skipped

no_way() {
    cluster cut a1 san-a && described ROUTES=routes.json -hosts a0,a1,a2 -n 3 ./exchange && routes routes.json >pairs
    local status=$?
    heal a1 san-a
    cat pairs
    [ $status -eq 0 ] && awk '{ wrong += $4 != ($1 == 1 || $2 == 1 ? "lan" : "san-a") } END { exit wrong || FNR != 6 }' pairs
}
check "figure 3: a network that does not lead to a peer is left for the next" no_way
# a0 and a1 try san-a, and all believe them, the other two as well, for whom it would be the better one.
measured() {
    cluster cut a0 san-a && described PRIORITY=measure ROUTES=routes.json -hosts a0,a1,a2 -n 3 ./exchange && routes routes.json >pairs
    local status=$?
    heal a0 san-a
    cat pairs
    [ $status -eq 0 ] && awk '{ wrong += $4 != "lan" } END { exit wrong || FNR != 6 }' pairs
}
check "figure 3: a network that is measured as slow is used by nobody" measured

# Both networks live, and between a0 and a1 the better one is slow: one packet after the other, at 64 kbit/s, so that each of them waits for
# longer than a round trip over lan takes. chosen NETWORK [SETTING=VALUE...]: that one is used for the pair, and all arrives.
slow_down() {
    local host
    for host in a0 a1; do
        cluster exec $host tc qdisc add dev san-a root handle 1: htb default 1 &&
            cluster exec $host tc class add dev san-a parent 1: classid 1:1 htb rate 64kbit burst 1 cburst 1 quantum 9014 || return 1
    done
}
speed_up() { for host in a0 a1; do cluster exec $host tc qdisc delete dev san-a root; done; }
chosen() {
    local network=$1 status
    shift
    slow_down && described ROUTES=routes.json "$@" -hosts a0,a1 -n 2 ./clusters first 2 2000 && routes routes.json >pairs
    status=$?
    speed_up
    cat pairs
    [ $status -eq 0 ] && awk -v network="$network" '{ wrong += $4 != network || $6 < 2000 } END { exit wrong || FNR != 2 }' pairs
}
if [ -z "$skipping" ]; then
    slow_down >/dev/null 2>&1 || skip_from_here "networks that live, one of them slow: this kernel has no HTB"
    speed_up >/dev/null 2>&1
fi
check "figure 3: the better network is used, though it is slow" chosen san-a
check "figure 3: a network that is measured as slower is not used, though it is the better one and lives" chosen lan PRIORITY=measure
[ -n "$reason" ] || ! $ucx || skip_from_here ""

# lost COUNT HOW DEED UNDO: ranks on a0 and a2, or only one, see that on a1 go.
lost() {
    local hosts=a0,a2,a1
    [ "$1" -eq 2 ] || hosts=a0,a1
    survivors "$1" "ucx: process 0 of host a1 is gone" "${@:2}" NETWORKS="$here/figure-3.networks" UDP_SILENCE_LIMIT=2 -hosts $hosts
}
interface_down() { cluster exec a1 ip link set san-a down; }
interface_up() { cluster exec a1 ip link set san-a up && heal a1 san-a; }
# Whoever gets an error in a barrier ends, which is another error for others.
for how in recv:2 send:2 barrier:1; do
    check "figure 3: a network that fails is an MPI error, in ${how%:*}" lost ${how#*:} ${how%:*} "cluster cut a1 san-a" "heal a1 san-a"
    check "figure 3: a killed rank is an MPI error, in ${how%:*}" lost ${how#*:} ${how%:*} "kill_on a1" true
done
check "figure 3: an interface that is switched off is an MPI error" lost 2 recv interface_down interface_up
unset MPIR_CVAR_CH4_COMPOSITE_WAIT
