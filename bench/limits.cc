// What this machine can do without MPI: the numbers no message-passing library on it can beat by much, or should want to.
//
//   flag      two processes on two cores hand one cache line back and forth            one way
//   handoff   two processes on one core wake each other through a futex                one way
//   memcpy    one core copies between two buffers of its own                           bandwidth
//   cma       one process reads the other's memory with process_vm_readv               bandwidth
//   udp, tcp  two processes on two cores, ping-pong over the loopback interface:       one way
//             both polling; and, as udp_blocking and tcp_blocking, both asleep in recv
//
// With --between HOST,HOST it measures a network instead. It must then be started once on each of the two hosts, by any
// launcher; the first of them prints the results:
//
//   udp       ping-pong of 8 B between plain UDP sockets, both sides polling           one way
//   stream    44 segments of 1448 B a call (UDP_SEGMENT), received with UDP_GRO;       bandwidth
//             the receiver returns credit, so that it is never overrun
//
// Same output as the MPI programs: one JSON object per line. What cannot be measured here (one core only, CMA forbidden)
// says so in a line with "skipped" instead of a value. Promise: ends within the time limit, and leaves no process.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Seconds = std::chrono::duration<double>;

struct Options {
    Seconds budget{0.15};
    unsigned limit_s = 60;
    std::string first_host, second_host;    // of --between; empty: this machine alone
};

void emit(const char *metric, size_t size, double value, const char *unit)
{
    std::printf("{\"bench\": \"limits\", \"metric\": \"%s\", \"size\": %zu, \"ranks\": 0, \"value\": %.6g, \"unit\": \"%s\"}\n",
                metric, size, value, unit);
    std::fflush(stdout);
}

void emit_skipped(const char *metric, const std::string &why)
{
    std::printf("{\"bench\": \"limits\", \"metric\": \"%s\", \"skipped\": \"%s\"}\n", metric, why.c_str());
    std::fflush(stdout);
}

[[noreturn]] void fail(const char *what)
{
    std::fprintf(stderr, "limits: %s: %s\n", what, std::strerror(errno));
    std::_Exit(1);
}

void require(bool holds, const char *what)
{
    if (!holds)
        fail(what);
}

// Median over five batches that together take about the budget.
Seconds time_per_iteration(Seconds budget, const std::function<void(long)> &body)
{
    constexpr int batch_count = 5;
    const Seconds target = budget / batch_count;
    auto timed = [&](long iterations) {
        const auto start = std::chrono::steady_clock::now();
        body(iterations);
        return Seconds(std::chrono::steady_clock::now() - start);
    };
    long iterations = 1;
    body(iterations);
    Seconds elapsed = timed(iterations);
    while (elapsed < target / 2) {
        iterations = static_cast<long>(static_cast<double>(iterations) * std::clamp(target / elapsed, 2.0, 16.0));
        elapsed = timed(iterations);
    }
    std::array<Seconds, batch_count> batches;
    for (Seconds &batch : batches)
        batch = timed(iterations) / static_cast<double>(iterations);
    std::sort(batches.begin(), batches.end());
    return batches[batch_count / 2];
}

// The CPUs this process may use, one of each physical core first: two hardware threads of a core are not two cores.
std::vector<int> usable_cpus()
{
    cpu_set_t set;
    require(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
    std::vector<int> first_threads, siblings;
    std::vector<std::string> seen;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
        std::string core = std::to_string(cpu);
        if (FILE *file = std::fopen(path.c_str(), "r")) {
            char line[256];
            if (std::fgets(line, sizeof line, file))
                core = line;
            std::fclose(file);
        }
        const bool known = std::find(seen.begin(), seen.end(), core) != seen.end();
        (known ? siblings : first_threads).push_back(cpu);
        seen.push_back(core);
    }
    first_threads.insert(first_threads.end(), siblings.begin(), siblings.end());
    return first_threads;
}

void run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    require(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

// A second process that runs `body` on `cpu`. It never outlives this one: the destructor kills and reaps it, and the
// kernel kills it if this process dies first.
class Peer {
public:
    Peer(int cpu, const std::function<void()> &body)
    {
        const pid_t parent = getpid();
        pid_ = fork();
        require(pid_ >= 0, "fork");
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                std::_Exit(1);
            run_on(cpu);
            body();
            std::_Exit(0);
        }
    }
    ~Peer()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    pid_t pid() const { return pid_; }

private:
    pid_t pid_;
};

// One word in a cache line of its own, shared by both processes. This process writes odd numbers, the peer even ones.
struct alignas(128) Flag {
    std::atomic<uint32_t> turn;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class SharedFlag {
public:
    SharedFlag()
    {
        void *memory = mmap(nullptr, sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        require(memory != MAP_FAILED, "mmap");
        flag_ = new (memory) Flag{};
    }
    ~SharedFlag() { munmap(flag_, sizeof(Flag)); }
    SharedFlag(const SharedFlag &) = delete;
    SharedFlag &operator=(const SharedFlag &) = delete;
    std::atomic<uint32_t> &turn() const { return flag_->turn; }

private:
    Flag *flag_;
};

void measure_flag(Seconds budget, int here, int there)
{
    SharedFlag flag;
    const Peer peer(there, [&] {
        for (uint32_t turn = 1;; turn += 2) {
            while (flag.turn().load(std::memory_order_acquire) != turn) {       // [A1] pairs with [R1]
            }
            flag.turn().store(turn + 1, std::memory_order_release);             // [R2] pairs with [A2]
        }
    });
    run_on(here);
    uint32_t turn = 0;
    const Seconds round_trip = time_per_iteration(budget, [&](long iterations) {
        for (long i = 0; i < iterations; i++) {
            flag.turn().store(turn + 1, std::memory_order_release);             // [R1] pairs with [A1]
            turn += 2;
            while (flag.turn().load(std::memory_order_acquire) != turn) {       // [A2] pairs with [R2]
            }
        }
    });
    emit("flag", 8, round_trip.count() / 2 * 1e6, "us");
}

void futex_wait_until(std::atomic<uint32_t> &word, uint32_t wanted)
{
    for (uint32_t seen = word.load(std::memory_order_acquire); seen != wanted; seen = word.load(std::memory_order_acquire))
        syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

void futex_publish(std::atomic<uint32_t> &word, uint32_t value)
{
    word.store(value, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void measure_handoff(Seconds budget, int cpu)
{
    SharedFlag flag;
    const Peer peer(cpu, [&] {
        for (uint32_t turn = 1;; turn += 2) {
            futex_wait_until(flag.turn(), turn);
            futex_publish(flag.turn(), turn + 1);
        }
    });
    run_on(cpu);
    uint32_t turn = 0;
    const Seconds round_trip = time_per_iteration(budget, [&](long iterations) {
        for (long i = 0; i < iterations; i++) {
            futex_publish(flag.turn(), turn + 1);
            turn += 2;
            futex_wait_until(flag.turn(), turn);
        }
    });
    emit("handoff", 8, round_trip.count() / 2 * 1e6, "us");
}

class Buffer {
public:
    explicit Buffer(size_t bytes) : bytes_(bytes)
    {
        memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(memory_ != MAP_FAILED, "mmap");
        std::memset(memory_, 1, bytes);
    }
    ~Buffer() { munmap(memory_, bytes_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    void *data() const { return memory_; }

private:
    void *memory_;
    size_t bytes_;
};

void measure_memcpy(Seconds budget, int cpu)
{
    run_on(cpu);
    for (const size_t size : {size_t{65536}, size_t{262144}, size_t{1} << 20, size_t{4} << 20, size_t{64} << 20}) {
        const Buffer from(size), to(size);
        const Seconds copy = time_per_iteration(budget, [&](long iterations) {
            for (long i = 0; i < iterations; i++) {
                std::memcpy(to.data(), from.data(), size);
                asm volatile("" : : "r"(to.data()) : "memory");         // the copy is not removed as unused
            }
        });
        emit("memcpy", size, static_cast<double>(size) / copy.count() * 1e-9, "GB/s");
    }
}

void measure_cma(Seconds budget, int here, int there)
{
    for (const size_t size : {size_t{4096}, size_t{65536}, size_t{262144}, size_t{1} << 20, size_t{4} << 20}) {
        const Buffer remote(size), local(size);
        int ready[2];
        require(pipe(ready) == 0, "pipe");
        const Peer peer(there, [&] {
#ifdef PR_SET_PTRACER
            prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
            std::memset(remote.data(), 2, size);                        // own pages, not those shared by fork
            require(write(ready[1], "r", 1) == 1, "write to a pipe");
            for (;;)
                pause();
        });
        run_on(here);
        close(ready[1]);
        char byte;
        require(read(ready[0], &byte, 1) == 1, "read from the peer");
        close(ready[0]);

        const iovec to{local.data(), size}, from{remote.data(), size};
        auto read_once = [&] { return process_vm_readv(peer.pid(), &to, 1, &from, 1, 0); };
        if (read_once() < 0) {
            emit_skipped("cma", std::string("process_vm_readv: ") + std::strerror(errno));
            return;
        }
        const Seconds copy = time_per_iteration(budget, [&](long iterations) {
            for (long i = 0; i < iterations; i++)
                require(read_once() == static_cast<ssize_t>(size), "process_vm_readv");
        });
        require(static_cast<const char *>(local.data())[size - 1] == 2, "process_vm_readv read other bytes than the peer wrote");
        emit("cma", size, static_cast<double>(size) / copy.count() * 1e-9, "GB/s");
    }
}

template <typename Value>
void set_option(int descriptor, int level, int option, const Value &value, const char *what)
{
    require(setsockopt(descriptor, level, option, &value, sizeof value) == 0, what);
}

int loopback_socket(int type, sockaddr_in &address)
{
    const int descriptor = socket(AF_INET, type, 0);
    require(descriptor >= 0, "socket");
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(bind(descriptor, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0, "bind to the loopback interface");
    socklen_t length = sizeof address;
    require(getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &length) == 0, "getsockname");
    return descriptor;
}

void connect_to(int descriptor, const sockaddr_in &address)
{
    require(connect(descriptor, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0, "connect on loopback");
}

// How a receiver waits: asleep in the kernel, or polling without ever sleeping, as a message-passing library does.
enum class Wait { blocking, polling };

constexpr size_t message_bytes = 8;

// A lost datagram must not hang the measurement: a blocking receive gives up after a second, and the time limit of the
// whole program ends a polling one.
void set_receive_limit(int descriptor)
{
    set_option(descriptor, SOL_SOCKET, SO_RCVTIMEO, timeval{1, 0}, "SO_RCVTIMEO");
}

bool receive(int descriptor, char *message, Wait wait)
{
    for (;;) {
        const ssize_t got = recv(descriptor, message, message_bytes, wait == Wait::polling ? MSG_DONTWAIT : MSG_WAITALL);
        if (got == static_cast<ssize_t>(message_bytes))
            return true;
        if (got >= 0 || wait == Wait::blocking || errno != EAGAIN)
            return false;
    }
}

void echo(int descriptor, Wait wait)
{
    char message[message_bytes];
    while (receive(descriptor, message, wait) && send(descriptor, message, message_bytes, 0) > 0) {
    }
}

void measure_socket(const char *metric, Seconds budget, int near, int far, int here, int there, Wait wait)
{
    const Peer peer(there, [&] { echo(far, wait); });
    run_on(here);
    set_receive_limit(near);
    const Seconds round_trip = time_per_iteration(budget, [&](long iterations) {
        char message[message_bytes] = {};
        for (long i = 0; i < iterations; i++) {
            require(send(near, message, message_bytes, 0) == static_cast<ssize_t>(message_bytes), "send on loopback");
            require(receive(near, message, wait), "receive on loopback");
        }
    });
    emit(metric, message_bytes, round_trip.count() / 2 * 1e6, "us");
}

// Polling is for two cores only: on one it would wait for the scheduler.
void measure_socket_waits(const std::string &protocol, Seconds budget, int near, int far, int here, int there)
{
    if (here != there)
        measure_socket(protocol.c_str(), budget, near, far, here, there, Wait::polling);
    else
        emit_skipped(protocol.c_str(), "only one CPU may be used");
    measure_socket((protocol + "_blocking").c_str(), budget, near, far, here, there, Wait::blocking);
}

void measure_udp(Seconds budget, int here, int there)
{
    sockaddr_in here_address, there_address;
    const int near = loopback_socket(SOCK_DGRAM, here_address), far = loopback_socket(SOCK_DGRAM, there_address);
    connect_to(near, there_address);
    connect_to(far, here_address);
    measure_socket_waits("udp", budget, near, far, here, there);
    close(near);
    close(far);
}

void measure_tcp(Seconds budget, int here, int there)
{
    sockaddr_in address;
    const int listener = loopback_socket(SOCK_STREAM, address);
    require(listen(listener, 1) == 0, "listen");
    const int near = socket(AF_INET, SOCK_STREAM, 0);
    require(near >= 0, "socket");
    connect_to(near, address);
    const int far = accept(listener, nullptr, nullptr);
    require(far >= 0, "accept");
    for (const int descriptor : {near, far})
        set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    measure_socket_waits("tcp", budget, near, far, here, there);
    close(near);
    close(far);
    close(listener);
}

// The two sides of a measurement between hosts. The first host's side sends numbers, which the second host's side echoes,
// and tells it with a number of its own when the next phase begins. The time limit ends a side whose partner is gone.
class Link {
public:
    Link(const std::string &here, const std::string &there)
    {
        descriptor_ = socket(AF_INET, SOCK_DGRAM, 0);
        require(descriptor_ >= 0, "socket");
        const sockaddr_in own = address_of(here), other = address_of(there);
        require(bind(descriptor_, reinterpret_cast<const sockaddr *>(&own), sizeof own) == 0, "bind");
        require(connect(descriptor_, reinterpret_cast<const sockaddr *>(&other), sizeof other) == 0, "connect");
    }
    ~Link() { close(descriptor_); }
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    int descriptor() const { return descriptor_; }

    bool try_send(uint64_t number) const { return send(descriptor_, &number, sizeof number, 0) == sizeof number; }
    // False when nothing has come.
    bool try_receive(uint64_t &number) const
    {
        return recv(descriptor_, &number, sizeof number, MSG_DONTWAIT) == sizeof number;
    }
    void exchange(uint64_t number) const
    {
        require(try_send(number), "send");
        for (uint64_t answer = ~number; answer != number;)
            try_receive(answer);
    }

private:
    static constexpr uint16_t port = 20777;     // the same on both hosts, which are for this measurement alone

    static sockaddr_in address_of(const std::string &host)
    {
        addrinfo hints{}, *found = nullptr;
        hints.ai_family = AF_INET;
        if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
            std::fprintf(stderr, "limits: host '%s' has no address\n", host.c_str());
            std::_Exit(1);
        }
        sockaddr_in address;
        std::memcpy(&address, found->ai_addr, sizeof address);
        address.sin_port = htons(port);
        freeaddrinfo(found);
        return address;
    }

    int descriptor_;
};

constexpr uint64_t end_of_phase = ~uint64_t{0};
constexpr size_t segment_bytes = 1448, segments_a_call = 44, call_bytes = segment_bytes * segments_a_call;
constexpr uint64_t calls_in_flight = 16;

// Until the other side is there, a number may be refused or lost.
void meet(const Link &link)
{
    for (uint64_t answer = 0; answer != 1;) {
        link.try_send(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        while (link.try_receive(answer)) {
        }
    }
}

void echo_numbers(const Link &link)
{
    for (uint64_t number = 0; number != end_of_phase;)
        if (link.try_receive(number))
            require(link.try_send(number), "send");
}

// Answers each call's worth of bytes with the number of calls so far: the credit for as many more.
void receive_stream(const Link &link)
{
    constexpr size_t batch = 32, buffer_bytes = 65536;
    const Buffer memory(batch * buffer_bytes);
    std::array<iovec, batch> parts;
    std::array<mmsghdr, batch> messages{};
    for (size_t i = 0; i < batch; i++) {
        parts[i] = {static_cast<char *>(memory.data()) + i * buffer_bytes, buffer_bytes};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    uint64_t bytes = 0, credited = 0;
    for (;;) {
        const int count = recvmmsg(link.descriptor(), messages.data(), batch, MSG_DONTWAIT, nullptr);
        for (int i = 0; i < count; i++) {
            if (messages[static_cast<size_t>(i)].msg_len == sizeof end_of_phase)
                return;
            bytes += messages[static_cast<size_t>(i)].msg_len;
        }
        if (bytes / call_bytes > credited) {
            credited = bytes / call_bytes;
            require(link.try_send(credited), "send");
        }
    }
}

void measure_stream(const Link &link, Seconds budget)
{
    const Buffer memory(call_bytes);
    uint64_t sent = 0, credited = 0;
    const Seconds call = time_per_iteration(budget, [&](long iterations) {
        for (long i = 0; i < iterations; i++) {
            require(send(link.descriptor(), memory.data(), call_bytes, 0) == static_cast<ssize_t>(call_bytes),
                    "send with UDP_SEGMENT");
            for (sent++; sent - credited >= calls_in_flight;)
                link.try_receive(credited);
        }
        while (credited != sent)
            link.try_receive(credited);
    });
    emit("stream", call_bytes, static_cast<double>(call_bytes) / call.count() * 1e-9, "GB/s");
}

// Room for all that is in flight, also where the kernel counts a packet as twice its size. Only root may go beyond the
// system's bound; the plain option stays below it.
void make_room(int descriptor)
{
    const int bytes = static_cast<int>(4 * calls_in_flight * call_bytes);
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        set_option(descriptor, SOL_SOCKET, SO_RCVBUF, bytes, "SO_RCVBUF");
}

void measure_network(const Options &options, int first_cpu, int second_cpu)
{
    char name[256] = "";
    require(gethostname(name, sizeof name - 1) == 0, "gethostname");
    if (name == options.first_host) {
        const Link link(options.first_host, options.second_host);
        run_on(first_cpu);
        meet(link);
        uint64_t number = 1;
        const Seconds round_trip = time_per_iteration(options.budget, [&](long iterations) {
            for (long i = 0; i < iterations; i++)
                link.exchange(++number);
        });
        emit("udp", message_bytes, round_trip.count() / 2 * 1e6, "us");
        link.exchange(end_of_phase);
        set_option(link.descriptor(), SOL_UDP, UDP_SEGMENT, static_cast<int>(segment_bytes), "UDP_SEGMENT");
        measure_stream(link, options.budget);
        require(link.try_send(end_of_phase), "send");
    } else if (name == options.second_host) {
        const Link link(options.second_host, options.first_host);
        run_on(second_cpu);
        set_option(link.descriptor(), SOL_UDP, UDP_GRO, 1, "UDP_GRO");
        make_room(link.descriptor());
        echo_numbers(link);
        receive_stream(link);
    } else {
        std::fprintf(stderr, "limits: host '%s' is neither of '%s' and '%s'\n", name, options.first_host.c_str(),
                     options.second_host.c_str());
        std::exit(1);
    }
}

Options parse(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && std::strcmp(argv[i], "--time") == 0)
            options.budget = Seconds(std::atof(argv[++i]));
        else if (i + 1 < argc && std::strcmp(argv[i], "--limit") == 0)
            options.limit_s = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (i + 1 < argc && std::strcmp(argv[i], "--between") == 0 && std::strchr(argv[i + 1], ',')) {
            const std::string both = argv[++i];
            options.first_host = both.substr(0, both.find(','));
            options.second_host = both.substr(both.find(',') + 1);
        } else {
            std::fprintf(stderr, "limits: unknown argument '%s'\n"
                         "usage: limits [--time SECONDS] [--limit SECONDS] [--between HOST,HOST]\n", argv[i]);
            std::exit(1);
        }
    }
    return options;
}

}  // namespace

int main(int argc, char **argv)
{
    const Options options = parse(argc, argv);
    alarm(options.limit_s);
    const std::vector<int> cpus = usable_cpus();
    const bool two_cores = cpus.size() > 1;
    const int here = cpus[0], there = cpus[two_cores ? 1 : 0];
    if (!options.first_host.empty()) {
        measure_network(options, here, there);
        return 0;
    }
    if (two_cores)
        measure_flag(options.budget, here, there);
    else
        emit_skipped("flag", "only one CPU may be used");
    measure_handoff(options.budget, here);
    measure_memcpy(options.budget, here);
    measure_cma(options.budget, here, there);
    measure_udp(options.budget, here, there);
    measure_tcp(options.budget, here, there);
    return 0;
}
