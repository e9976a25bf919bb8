#include "inspector/doctor/hosts.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/joined.h"

namespace pm::inspector {
namespace {

const std::string form = "Write a name and, if wanted, the number of its ranks, as in alpha:4.";

void blame(Hosts *hosts, const std::string &where, const std::string &found, const std::string &advice)
{
    hosts->advices.push_back({Level::problem, where, found, advice});
}

// Of a host or a user: nothing that a launcher could take for an option.
bool is_name(const std::string &word)
{
    auto may_be_in_name = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
    return !word.empty() && word[0] != '-' && std::ranges::all_of(word, may_be_in_name);
}

// Adds the host of "alpha:4", or says why it is none.
bool add(Hosts *hosts, const std::string &where, const std::string &word)
{
    std::size_t colon = word.find(':');
    Host host{word.substr(0, colon), "", 1};
    if (!is_name(host.name)) {
        blame(hosts, where, "\"" + word + "\" names no host", form);
        return false;
    }
    if (colon != std::string::npos) {
        std::string number = word.substr(colon + 1);
        bool digits = !number.empty() && number.size() < 7 && std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c); });
        host.ranks = digits ? std::stol(number) : 0;
        if (host.ranks < 1) {
            bool address = number.find(':') != std::string::npos;
            blame(hosts, where, "\"" + number + "\" behind " + host.name + ": is no number of ranks",
                  address ? "An IPv6 address cannot be written here, as mpiexec takes it for a name and a number: give it a name in /etc/hosts." : form);
            return false;
        }
    }
    auto same = std::ranges::find(hosts->list, host.name, &Host::name);
    if (same == hosts->list.end()) {
        hosts->list.push_back(host);
        return true;
    }
    same->ranks += host.ranks;
    hosts->advices.push_back({Level::warning, where, host.name + " is named again",
                              "Its ranks add up, and their numbers are not together: name a host once, with the number of its ranks behind it."});
    return true;
}

void conclude(Hosts *hosts, const std::string &where)
{
    if (hosts->list.empty() && hosts->advices.empty())
        blame(hosts, where, "there is no host in it", form);
    long ranks = 0;
    for (const Host &host : hosts->list)
        ranks += host.ranks;
    if (!hosts->list.empty())
        hosts->advices.push_back({Level::ok, where, std::to_string(hosts->list.size()) + (hosts->list.size() == 1 ? " host" : " hosts") + " for " +
                                                        std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"), ""});
}

}  // namespace

Hosts parse_hosts(const std::string &list)
{
    Hosts hosts;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');)
        (void) add(&hosts, "list of hosts", word);
    conclude(&hosts, "list of hosts");
    return hosts;
}

Hosts read_hosts(const std::string &path)
{
    Hosts hosts;
    std::ifstream file(path);
    if (!file || file.peek() == std::ifstream::traits_type::eof()) {
        bool empty = static_cast<bool>(std::ifstream(path));
        blame(&hosts, path, empty ? "it is empty, or no file" : std::strerror(errno), "mpiexec -f needs a file with a host a line. " + form);
        return hosts;
    }
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        std::string where = path + ":" + std::to_string(++number);
        std::istringstream words(line.substr(0, line.find('#')));
        std::string word;
        if (!(words >> word))
            continue;
        bool added = add(&hosts, where, word);
        std::string name = word.substr(0, word.find(':'));
        while (words >> word) {
            std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
            if (word.starts_with("user=") && is_name(value)) {
                if (added)
                    std::ranges::find(hosts.list, name, &Host::name)->user = value;
            } else if (!word.starts_with("binding=")) {
                blame(&hosts, where, "mpiexec does not know \"" + word + "\"",
                      word.starts_with("slots=") || word.starts_with("max_slots=") || word.starts_with("max-slots=")
                          ? "That is how Open MPI writes it; here it is " + name + ":" + (value.empty() ? "4" : value) + "."
                          : "Behind the host there may be user=NAME and binding=HOW.");
            }
        }
    }
    conclude(&hosts, path);
    return hosts;
}

}  // namespace pm::inspector
