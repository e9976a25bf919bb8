// The helper of doctor on a host.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/joined.h"
#include "inspector/doctor/examination.h"
#include "inspector/doctor/helpers.h"
#include "inspector/doctor/reach.h"
#include "inspector/doctor/resolve.h"
#include "inspector/findings.h"

namespace pm::inspector {
namespace {

// Whoever started it is gone without closing the connection, long before.
constexpr unsigned lifetime = 300;

void say(Line words)
{
    words.insert(words.begin(), helper_mark);
    std::fputs(line_of(words).c_str(), stdout);
    std::fflush(stdout);
}

std::vector<Ip> addresses_of(const std::string &text)
{
    std::vector<Ip> addresses;
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');)
        if (auto address = parse_subnet(word); address.ok())
            addresses.push_back(address.value().ip);
    return addresses;
}

// mpiexec's own: "10000:10100".
udp::PortRange ports_of_mpiexec()
{
    for (const char *name : {"MPIR_CVAR_CH3_PORT_RANGE", "MPIR_CVAR_PORT_RANGE", "MPICH_PORT_RANGE", "MPIEXEC_PORT_RANGE"})
        if (const char *value = std::getenv(name)) {
            std::string text = value;
            if (std::size_t colon = text.find(':'); colon != std::string::npos)
                text[colon] = '-';
            auto range = udp::parse_ports(text);
            if (range.ok())
                return range.value();
        }
    return {};
}

std::uint16_t port_of(const std::string &word)
{
    return static_cast<std::uint16_t>(std::strtoul(word.c_str(), nullptr, 10));
}

// What came in one line, without its end; nothing at the end of the input.
bool next_line(Reach *reach, std::string *rest, std::string *line)
{
    std::size_t end;
    while ((end = rest->find('\n')) == std::string::npos) {
        reach->answer_until(STDIN_FILENO);
        char buffer[4096];
        ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
        if (size <= 0)
            return false;
        rest->append(buffer, static_cast<std::size_t>(size));
    }
    *line = rest->substr(0, end);
    rest->erase(0, end + 1);
    return true;
}

}  // namespace

int answer()
{
    alarm(lifetime);
    Examination found = examine_this_host();
    const Facts &facts = found.facts;
    auto ports = udp::parse_ports(setting("UDP_PORTS"));
    auto reach = Reach::create(ports_of_mpiexec(), ports.value());
    if (!reach.ok())
        found.advices.push_back({Level::problem, "listening", reach.error().text, "Allow sockets and ports, or change the range of ports."});
    Reach &ears = reach.value();
    for (const Advice &advice : found.advices)
        say({"advice", level_name(advice.level), advice.check, advice.found, advice.advice});
    std::vector<std::string> addresses;
    for (const Ip &ip : facts.addresses)
        addresses.push_back(ip_text(ip));
    say({"facts", facts.version, facts.program, facts.host, std::to_string(facts.library), std::to_string(facts.cores), facts.udp ? "1" : "0",
         facts.ucx ? "1" : "0", std::to_string(ears.secret()), std::to_string(ears.tcp()), std::to_string(ears.udp()), joined(addresses, ",")});
    say({"ready"});
    std::vector<Target> targets;
    std::string rest, text;
    while (reach.ok() && next_line(&ears, &rest, &text)) {
        Line line = words_of(text);
        line.resize(5);
        std::uint64_t secret = std::strtoull(line[1].c_str(), nullptr, 10);
        if (line[0] == "target") {
            targets.push_back({secret, port_of(line[2]), port_of(line[3]), addresses_of(line[4])});
        } else if (line[0] == "home") {
            Resolved home = resolve(line[3]);
            say({"home", line[3], home.trouble, address_list(home.addresses)});
            targets.push_back({secret, port_of(line[2]), 0, home.addresses});
        } else if (line[0] == "go") {
            for (const Outcome &outcome : ears.try_all(targets))
                say({"reach", outcome.tcp, outcome.udp});
            say({"done"});
        } else if (line[0] == "heard?") {
            Line heard = {"heard"};
            for (std::uint64_t asker : ears.heard())
                heard.push_back(std::to_string(asker));
            say(heard);
        }
    }
    return 0;
}

}  // namespace pm::inspector
