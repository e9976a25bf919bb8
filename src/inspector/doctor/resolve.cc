#include "inspector/doctor/resolve.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "base/joined.h"
#include "inspector/ip_of.h"

namespace pm::inspector {
namespace {

constexpr std::chrono::seconds patience{5};

// Writes the addresses one after the other, or the words of the resolver behind one zero byte.
[[noreturn]] void ask(const std::string &name, int answer)
{
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
    std::string text;
    for (const addrinfo *each = list; error == 0 && each != nullptr; each = each->ai_next)
        if (std::optional<Ip> ip = ip_of(each->ai_addr))
            text.append(reinterpret_cast<const char *>(ip->data()), ip->size());
    if (text.empty())
        text = std::string(1, '\0') + (error != 0 ? gai_strerror(error) : "it has no address");
    else
        text.insert(text.begin(), '\1');
    ssize_t written = write(answer, text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

// What was written, and nothing when the writer has not ended in time.
std::string read_until(int file, std::chrono::steady_clock::time_point end)
{
    std::string text;
    char buffer[4096];
    for (;;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        pollfd entry{file, POLLIN, 0};
        // What is there is read, even if another one has used up the time.
        if (poll(&entry, 1, static_cast<int>(std::max<long long>(left, 0))) == 0)
            return "";
        ssize_t size = read(file, buffer, sizeof buffer);
        if (size == 0)
            return text;
        if (size > 0)
            text.append(buffer, static_cast<std::size_t>(size));
    }
}

Resolved understand(const std::string &text)
{
    if (text.empty())
        return {{}, "no answer from the name server within " + std::to_string(patience.count()) + " s"};
    if (text[0] == '\0')
        return {{}, text.substr(1)};
    Resolved resolved;
    for (std::size_t place = 1; place + sizeof(Ip) <= text.size(); place += sizeof(Ip)) {
        Ip ip;
        std::memcpy(ip.data(), text.data() + place, ip.size());
        if (std::ranges::find(resolved.addresses, ip) == resolved.addresses.end())
            resolved.addresses.push_back(ip);
    }
    return resolved;
}

}  // namespace

std::vector<Resolved> resolve_all(const std::vector<std::string> &names)
{
    struct Question {
        pid_t child = -1;
        File reading;
    };
    std::vector<Question> questions(names.size());
    std::vector<Resolved> answers(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        int ends[2];
        if (pipe(ends) != 0) {
            answers[i].trouble = std::strerror(errno);
            continue;
        }
        questions[i].reading = File(ends[0]);
        questions[i].child = fork();
        if (questions[i].child == 0)
            ask(names[i], ends[1]);
        answers[i].trouble = questions[i].child < 0 ? std::strerror(errno) : "";
        close(ends[1]);
    }
    auto end = std::chrono::steady_clock::now() + patience;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (questions[i].child > 0)
            answers[i] = understand(read_until(questions[i].reading.get(), end));
    for (const Question &question : questions) {
        if (question.child <= 0)
            continue;
        kill(question.child, SIGKILL);  // whoever has answered has nothing left to do
        while (waitpid(question.child, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
    return answers;
}

Resolved resolve(const std::string &name)
{
    return resolve_all({name})[0];
}

std::string address_list(const std::vector<Ip> &addresses)
{
    std::vector<std::string> texts;
    for (const Ip &ip : addresses)
        texts.push_back(ip_text(ip));
    return joined(texts, ", ");
}

bool are_of_this_host(const std::vector<Ip> &addresses)
{
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return false;
    bool found = false;
    for (const ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next)
        if (std::optional<Ip> ip = ip_of(entry->ifa_addr))
            found = found || std::ranges::find(addresses, *ip) != addresses.end();
    freeifaddrs(list);
    // All of 127.0.0.0/8 is this host.
    Subnet loopback{ip_from_v4({127, 0, 0, 0}), 104};
    return found || std::ranges::any_of(addresses, [&](const Ip &ip) { return loopback.contains(ip); });
}

}  // namespace pm::inspector
