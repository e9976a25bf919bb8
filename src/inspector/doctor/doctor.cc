// Whether this host, and the hosts of a job, are fit for jobs: what to do about what is not.
//
// What is found out is found out by helpers (helpers.h), on this host, too: whatever they do takes a limited time.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/escape.h"
#include "base/joined.h"
#include "inspector/commands.h"
#include "inspector/doctor/examination.h"
#include "inspector/doctor/helpers.h"
#include "inspector/doctor/hosts.h"
#include "inspector/doctor/resolve.h"
#include "inspector/findings.h"

extern char **environ;

namespace pm::inspector {
namespace {

struct Request {
    bool json = false, has_hosts = false;
    Hosts hosts;
    std::string launcher = "ssh";
    std::chrono::seconds limit{15};
    std::string trouble;  // empty: none
};

Request parse(Words words)
{
    Request request;
    std::string list;
    auto refused = [&](const std::string &sentence) {
        request.trouble = sentence;
        return request;
    };
    for (std::size_t place = 0; place < words.size(); ++place) {
        std::string_view word = words[place];
        bool more = place + 1 < words.size();
        if (word == "--json") {
            request.json = true;
        } else if (word == "-f" || word == "--launcher-exec" || word == "--timeout") {
            if (!more)
                return refused("behind " + std::string(word) + " something is missing: " +
                               (word == "-f" ? "a file with a host a line" : word == "--timeout" ? "a number of seconds" : "a program"));
            std::string value = words[++place];
            if (word == "--launcher-exec") {
                request.launcher = value;
            } else if (word == "--timeout") {
                unsigned seconds = 0;
                auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
                if (error != std::errc{} || end != value.data() + value.size() || seconds < 1 || seconds > 120)
                    return refused("the number of seconds behind --timeout is from 1 to 120, and not \"" + value + "\"");
                request.limit = std::chrono::seconds(seconds);
            } else if (request.has_hosts) {
                return refused("give the hosts once, by a list or by -f");
            } else {
                request.hosts = read_hosts(value);
                request.has_hosts = true;
            }
        } else if (word.starts_with("-")) {
            return refused("doctor knows no option \"" + std::string(word) + "\"; known are -f, --json, --launcher-exec and --timeout");
        } else if (request.has_hosts) {
            return refused("give the hosts once, by a list such as alpha,beta:4 or by -f");
        } else {
            request.hosts = parse_hosts(std::string(word));
            request.has_hosts = true;
        }
    }
    return request;
}

// A host as its helper tells of it.
struct Patient {
    Host host;
    std::unique_ptr<Helper> helper;
    bool in_job = false;   // or only where mpiexec would run
    bool here = false;
    bool ready = false;
    Line facts;            // as answer() says them
    Advices advices;

    enum Fact { version = 1, program, own_name, library, cores, udp, ucx, secret, tcp_port, udp_port, addresses, count };
    bool is(Fact fact) const { return facts[fact] == "1"; }
};

// The settings that mpiexec would pass on, for a shell.
std::string settings_for_shell()
{
    std::string text;
    for (char **each = environ; *each != nullptr; ++each) {
        std::string_view entry = *each;
        std::string_view name = entry.substr(0, entry.find('='));
        if (name.starts_with("MPIR_CVAR_") || name.starts_with("UCX_") || name == "LD_LIBRARY_PATH" || name == "PATH" || name == "MPICH_PORT_RANGE" || name == "MPIEXEC_PORT_RANGE")
            text += shell_word(entry) + " ";
    }
    return text.empty() ? "" : "env " + text;
}

std::vector<std::string> command_for(const Request &request, const Host &host)
{
    std::vector<std::string> command = {request.launcher, "-x"};
    if (std::filesystem::path(request.launcher).filename() == "ssh") {
        command.push_back("-oBatchMode=yes");
        command.push_back("-oConnectTimeout=" + std::to_string(request.limit.count()));
    }
    command.push_back(host.user.empty() ? host.name : host.user + "@" + host.name);
    command.push_back(settings_for_shell() + shell_word(own_program()) + " doctor --answer");
    return command;
}

std::string last_line(std::string text)
{
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
        text.pop_back();
    return plain_text(text.substr(text.rfind('\n') + 1));
}

// Why a helper did not say that it is ready.
Advice diagnosis(const Request &request, const Patient &patient, const Resolved &resolved)
{
    const Helper &helper = *patient.helper;
    const std::string &name = patient.host.name;
    std::string words = helper.complained, quoted = words.empty() ? "" : ": " + last_line(words);
    auto says = [&](const char *part) { return words.find(part) != std::string::npos; };
    bool ssh = std::filesystem::path(request.launcher).filename() == "ssh";
    std::string check = patient.here ? "helper" : ssh ? "ssh" : "launcher";
    if (helper.process <= 0)
        return {Level::problem, check, words, "Install it, or name another one by --launcher-exec."};
    if (!patient.here && !resolved.trouble.empty())
        return {Level::problem, "name", name + ": " + resolved.trouble, "Nobody knows this host: correct its name, or add it to /etc/hosts or the DNS."};
    if (!helper.ended)
        return {Level::problem, check, "no answer within " + std::to_string(request.limit.count()) + " s" + quoted,
                patient.here ? "Something of this host does not answer: mpicomposite devices may show what."
                             : "See whether the host is up and " + request.launcher + " " + name + " true works; --timeout gives it more time."};
    int status = helper.status;
    if (says("Permission denied") && status == 255)
        return {Level::problem, check, "it wants a password" + quoted, "mpiexec cannot type one: make a key (ssh-keygen) and give it to the host (ssh-copy-id " + name + ")."};
    if (says("Host key verification failed"))
        return {Level::problem, check, "the key of the host is not known, or another than before" + quoted, "Run ssh " + name + " once and look at what it says."};
    if (status == 126 || status == 127 || says("ot found") || says("No such file"))
        return {Level::problem, "installation", "there is no " + own_program() + quoted,
                "mpiexec starts its proxies by the same path on all hosts: install it there, or share the directory."};
    if (status == 2 && says("is no command"))
        return {Level::problem, "installation", "an older version that knows no doctor", "Install version " PACKAGE_VERSION " there, too."};
    return {Level::problem, check, "it ended with status " + std::to_string(status) + quoted, "Try " + request.launcher + " " + name + " true by hand."};
}

void understand(Patient *patient)
{
    for (const Line &line : patient->helper->lines) {
        if (line[0] == "advice" && line.size() == 5)
            patient->advices.push_back({line[1] == "ok" ? Level::ok : line[1] == "warning" ? Level::warning : Level::problem, line[2], line[3], line[4]});
        if (line[0] == "facts" && line.size() == Patient::count)
            patient->facts = line;
    }
    patient->ready = patient->helper->has("ready") && !patient->facts.empty();
    // Commands are called here; elsewhere mpiexec starts what it needs by its path.
    if (!patient->here)
        std::erase_if(patient->advices, [](const Advice &advice) { return advice.check == "mpiexec" || advice.check == "mpicc"; });
}

// What is found by comparing a host with this one, and with what the job wants of it.
void compare(const Patient &own, Patient *other, bool counted)
{
    if (other->facts[Patient::version] != own.facts[Patient::version])
        other->advices.push_back({Level::problem, "version", other->facts[Patient::version] + ", and here " + own.facts[Patient::version],
                                  "Ranks of two versions do not understand each other: install the same on all hosts."});
    else if (other->facts[Patient::library] != own.facts[Patient::library])
        other->advices.push_back({Level::warning, "version", "another build of the library than here", "Install the same build on all hosts."});
    else if (!other->here)
        other->advices.push_back({Level::ok, "version", "the same as here", ""});
    long cores = std::strtol(other->facts[Patient::cores].c_str(), nullptr, 10);
    if (counted && other->in_job && other->host.ranks > cores)
        other->advices.push_back({Level::warning, "ranks", std::to_string(other->host.ranks) + " for " + std::to_string(cores) + (cores == 1 ? " core" : " cores"),
                                  "They share cores: it works, as ranks that wait sleep, but what computes is slower. Give fewer."});
}

std::string name_here(const std::vector<Patient> &patients)
{
    for (const Patient &patient : patients)
        if (patient.here && patient.in_job)
            return patient.host.name;
    return host_name();
}

// Has the hosts try each other, and tells what does not work.
Advices between(const std::vector<Patient *> &patients, const std::string &home)
{
    Advices advices;
    std::vector<Patient *> members;
    std::vector<Helper *> asked, away;
    const Patient *own = nullptr;
    for (Patient *patient : patients) {
        if (!patient->ready)
            continue;
        if (patient->here)
            own = patient;
        if (patient->in_job)
            members.push_back(patient);
    }
    if (own == nullptr || members.empty() || (members.size() == 1 && members[0] == own))
        return advices;
    for (Patient *patient : members) {
        std::string text;
        for (const Patient *other : members)
            if (other != patient)
                text += line_of({"target", other->facts[Patient::secret], other->facts[Patient::tcp_port], other->facts[Patient::udp_port], other->facts[Patient::addresses]});
        if (patient != own) {
            text += line_of({"home", own->facts[Patient::secret], own->facts[Patient::tcp_port], home});
            away.push_back(patient->helper.get());
        }
        patient->helper->tell(text);
        asked.push_back(patient->helper.get());
    }
    // Who asks a slow name server does not answer others meanwhile: they begin when all have asked.
    listen_to(away, "home", std::chrono::seconds(10));
    for (Helper *helper : asked)
        helper->tell("go\n");
    listen_to(asked, "done", std::chrono::seconds(20));
    for (Helper *helper : asked)
        if (helper->has("done"))
            helper->tell("heard?\n");
    listen_to(asked, "heard", std::chrono::seconds(5));
    auto heard = [](const Patient *to, const Patient *from) {
        for (const Line &line : to->helper->lines)
            if (line[0] == "heard")
                return std::ranges::find(line, from->facts[Patient::secret]) != line.end();
        return false;
    };
    std::size_t ways = 0, wrong = 0;
    bool all_by_udp = true;
    for (const Patient *from : members) {
        std::vector<Line> outcomes;
        for (const Line &line : from->helper->lines) {
            if (line[0] == "reach" && line.size() == 3)
                outcomes.push_back(line);
            if (line[0] == "home" && line.size() == 4 && !line[2].empty()) {
                ++wrong;
                advices.push_back({Level::problem, from->host.name + " to mpiexec", line[1] + " is not known on " + from->host.name + ": " + line[2],
                                   "Proxies connect to mpiexec by this name: add it to /etc/hosts or the DNS of " + from->host.name + "."});
            }
        }
        if (!from->helper->has("heard") || outcomes.size() + 1 < members.size()) {
            advices.push_back({Level::problem, from->host.name, "its helper did not come to an end", "See whether the connection to the host is still there."});
            ++wrong;
            continue;
        }
        std::size_t next = 0;
        for (const Patient *to : members) {
            if (to == from || next >= outcomes.size())
                continue;
            const Line &outcome = outcomes[next++];
            ++ways;
            std::string way = from->host.name + " to " + to->host.name;
            // No answer, though the question came: then it is the other direction that is closed.
            const std::string &tcp = outcome[1], udp = heard(to, from) ? "" : outcome[2];
            bool by_udp = from->is(Patient::udp) && to->is(Patient::udp), by_ucx = from->is(Patient::ucx) && to->is(Patient::ucx);
            wrong += !tcp.empty() || (by_udp && !udp.empty()) || (!by_udp && !by_ucx) ? 1 : 0;
            all_by_udp = all_by_udp && by_udp;
            if (!by_udp && !by_ucx)
                advices.push_back({Level::problem, way, "no device leads there: one of them has neither UDP nor a fabric of the other",
                                   "See what mpicomposite devices says on both, and what MPIR_CVAR_CH4_COMPOSITE_DEVICES allows."});
            if (by_udp && !udp.empty())
                advices.push_back({by_ucx ? Level::warning : Level::problem, way,
                                   "UDP does not arrive at port " + to->facts[Patient::udp_port] + " of " + to->facts[Patient::addresses] + ": " + udp +
                                       (tcp.empty() ? "; TCP does" : ""),
                                   (tcp.empty() ? "A firewall on " + to->host.name + " or between them stops it: allow UDP between the hosts, or a range of ports that "
                                                  "MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS names."
                                                : "No network leads there, or a firewall stops everything: look at the routes and rules of both hosts.") +
                                       std::string(by_ucx ? " The fabric does without." : "")});
            if (!tcp.empty() && (udp.empty() || !by_udp))
                advices.push_back({by_udp ? Level::warning : Level::problem, way,
                                   "TCP does not arrive at port " + to->facts[Patient::tcp_port] + ": " + tcp + (by_udp ? "; UDP does" : ""),
                                   "A firewall on " + to->host.name + " or between them stops it: UCX over TCP needs it, and whether a silent host is there is asked by TCP."});
        }
        if (from == own || next >= outcomes.size())
            continue;
        const Line &outcome = outcomes[next];
        bool known = std::ranges::none_of(from->helper->lines, [](const Line &line) { return line[0] == "home" && line.size() == 4 && !line[2].empty(); });
        if (known && !outcome[1].empty()) {
            ++wrong;
            advices.push_back({Level::problem, from->host.name + " to mpiexec", "TCP does not arrive at " + home + " port " + own->facts[Patient::tcp_port] + ": " + outcome[1],
                               "Proxies connect to mpiexec: allow TCP to " + home + ", or a range of ports that MPIEXEC_PORT_RANGE (as 10000:10100) names."});
        }
    }
    // Two names for one host.
    for (std::size_t i = 0; i < members.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (members[i]->facts[Patient::own_name] == members[j]->facts[Patient::own_name])
                advices.push_back({Level::warning, "names", members[j]->host.name + " and " + members[i]->host.name + " both call themselves " + members[i]->facts[Patient::own_name],
                                   "If that is one host, name it once; if they are two, give them names of their own."});
    if (wrong == 0)
        advices.push_back({Level::ok, "network", ways > 0 ? std::string(all_by_udp ? "TCP and UDP arrive" : "TCP arrives") + ", in all " + std::to_string(ways) + " directions" : "TCP arrives at mpiexec", ""});
    return advices;
}

std::string sentence_of(const Advice &advice)
{
    const char *end = advice.found.ends_with('.') ? " " : ". ";
    return plain_text(advice.found) + (advice.advice.empty() ? "" : end + plain_text(advice.advice));
}

std::string as_text(const std::string &title, const Advices &advices, bool brief)
{
    std::string text = title + "\n";
    std::size_t width = 0, fine = 0;
    for (const Advice &advice : advices)
        width = std::max(width, brief && advice.level == Level::ok ? 0 : advice.check.size());
    for (const Advice &advice : advices) {
        if (brief && advice.level == Level::ok) {
            ++fine;
            continue;
        }
        std::string level = level_name(advice.level), check = plain_text(advice.check);
        text += "  " + level + std::string(9 - level.size(), ' ') + check + std::string(width - std::min(width, check.size()) + 2, ' ') + sentence_of(advice) + "\n";
    }
    if (fine > 0)
        text += "  ok       " + std::to_string(fine) + (fine == 1 ? " check\n" : " checks\n");
    return text;
}

std::string as_json(const Advices &advices)
{
    std::string text;
    for (const Advice &advice : advices)
        text += (text.empty() ? "\n" : ",\n") + std::string("{\"check\":") + json_string(advice.check) + ",\"level\":" + json_string(level_name(advice.level)) +
                ",\"found\":" + json_string(advice.found) + ",\"advice\":" + json_string_or_null(advice.advice) + "}";
    return "[" + text + "]";
}

std::string counted(std::size_t count, const char *what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// As many descriptors as there may be: each host takes three.
void raise_descriptors()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

int doctor(Words words)
{
    if (words.size() == 1 && std::string_view(words[0]) == "--answer")
        return answer();
    Request request = parse(words);
    if (!request.trouble.empty())
        return refuse(request.trouble);
    std::signal(SIGPIPE, SIG_IGN);
    raise_descriptors();

    // This host first, whether it is one of the job or not: mpiexec would run here.
    std::vector<Patient> patients(1);
    patients[0].host.name = host_name();
    patients[0].here = true;
    std::vector<std::string> names;
    for (const Host &host : request.hosts.list)
        names.push_back(host.name);
    std::vector<Resolved> resolved = resolve_all(names);
    std::vector<Resolved> addresses(1);
    for (std::size_t i = 0; i < names.size(); ++i) {
        bool here = names[i] == host_name() || are_of_this_host(resolved[i].addresses);
        if (here && !patients[0].in_job) {
            patients[0].host = request.hosts.list[i];
            patients[0].in_job = true;
        } else if (here) {
            request.hosts.advices.push_back({Level::warning, "names", names[i] + " and " + patients[0].host.name + " are both this host", "Name a host once."});
        } else {
            Patient &patient = patients.emplace_back();
            patient.host = request.hosts.list[i];
            patient.in_job = true;
            addresses.push_back(resolved[i]);
        }
    }
    std::vector<Helper *> helpers;
    std::vector<Patient *> all;
    for (Patient &patient : patients) {
        patient.helper = start_helper(patient.host.name, patient.here ? std::vector<std::string>{own_program(), "doctor", "--answer"}
                                                                      : command_for(request, patient.host));
        helpers.push_back(patient.helper.get());
        all.push_back(&patient);
    }
    listen_to(helpers, "ready", request.limit);
    for (std::size_t i = 0; i < patients.size(); ++i) {
        Patient &patient = patients[i];
        understand(&patient);
        if (!patient.ready)
            patient.advices.push_back(diagnosis(request, patient, addresses[i]));
        else if (!patient.here && !addresses[i].trouble.empty())
            patient.advices.push_back({Level::warning, "name", patient.host.name + ": " + addresses[i].trouble,
                                       "Only " + request.launcher + " knows this name: add it to /etc/hosts or the DNS."});
        if (patient.ready && patients[0].ready)
            compare(patients[0], &patient, request.has_hosts);
    }
    Advices network = between(all, name_here(patients));
    dismiss(helpers);

    std::size_t problems = 0, warnings = 0;
    auto add_up = [&](const Advices &advices) {
        problems += static_cast<std::size_t>(std::ranges::count(advices, Level::problem, &Advice::level));
        warnings += static_cast<std::size_t>(std::ranges::count(advices, Level::warning, &Advice::level));
    };
    add_up(request.hosts.advices);
    add_up(network);
    std::string text, json;
    for (const Patient &patient : patients) {
        add_up(patient.advices);
        text += "\n" + as_text("host " + plain_text(patient.host.name) + (patient.here ? " (here)" : ""), patient.advices, !patient.here);
        json += (json.empty() ? "\n" : ",\n") + std::string("{\"host\":") + json_string(patient.host.name) + ",\"here\":" + (patient.here ? "true" : "false") +
                ",\"checks\":" + as_json(patient.advices) + "}";
    }
    if (request.has_hosts)
        text = as_text("hosts of the job", request.hosts.advices, false) + text;
    if (!network.empty())
        text += "\n" + as_text("between the hosts", network, false);
    text = text.substr(text.starts_with("\n") ? 1 : 0) + "\n" + counted(problems, "problem") + ", " + counted(warnings, "warning") + "\n";
    json = "{\"job\":" + as_json(request.hosts.advices) + ",\"hosts\":[" + json + "],\"between\":" + as_json(network) + ",\"problems\":" + std::to_string(problems) +
           ",\"warnings\":" + std::to_string(warnings) + "}\n";
    std::fputs((request.json ? json : text).c_str(), stdout);
    return problems == 0 ? success : failure;
}

}  // namespace pm::inspector
