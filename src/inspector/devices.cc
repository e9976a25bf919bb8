#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/escape.h"
#include "base/joined.h"
#include "inspector/commands.h"
#include "inspector/findings.h"
#include "netmod/core/links.h"

namespace pm::inspector {
namespace {

std::string padded(const std::string &text, std::size_t width)
{
    return text + std::string(text.size() < width ? width - text.size() : 0, ' ') + "  ";
}

std::string verdict(const std::string &why_not)
{
    return why_not.empty() ? "used" : "not used: " + plain_text(why_not);
}

std::vector<std::string> address_texts(const LocalNetwork &network)
{
    std::vector<std::string> texts;
    for (const Subnet &address : network.addresses)
        texts.push_back(address_text(address));
    return texts;
}

std::string as_text(const Job &job, const std::vector<Finding> &findings)
{
    std::string text = "host " + plain_text(host_name()) + "\n";
    for (const Finding &finding : findings) {
        std::string version = finding.version.empty() ? "" : " (" + finding.version + ")";
        text += "\n" + std::string(device_name(finding.device)) + version + ": " + verdict(finding.why_not) + "\n";
        std::size_t names = 0, details = 0;
        for (const Part &part : finding.parts) {
            names = std::max(names, part.name.size());
            details = std::max(details, part.detail.size());
        }
        for (const Part &part : finding.parts)
            text += "  " + padded(plain_text(part.name), names) + padded(plain_text(part.detail), details) +
                    verdict(part.why_not) + "\n";
    }
    text += job.descriptions.empty() ? "\nnetworks found:" : "\nnetworks of MPIR_CVAR_CH4_COMPOSITE_NETWORKS with this host:";
    text += job.networks.empty() ? " none\n" : "\n";
    for (const LocalNetwork &each : job.networks)
        text += "  " + plain_text(each.network.name) + ": " + device_name(each.network.device) + ", priority " +
                std::to_string(each.network.priority) + ", " + joined(each.ports, ", ") +
                (each.addresses.empty() ? "" : " (" + joined(address_texts(each), ", ") + ")") + "\n";
    for (const std::string &error : job.errors)
        text += "\nno job can start: " + plain_text(error) + "\n";
    return text;
}

template <class Members, class Member>
std::string json_list(const Members &members, Member member)
{
    std::string text;
    for (const auto &each : members)
        text += (text.empty() ? "" : ",") + member(each);
    return "[" + text + "]";
}

std::string json_verdict(const std::string &why_not)
{
    return "\"used\":" + std::string(why_not.empty() ? "true" : "false") + ",\"why_not\":" + json_string_or_null(why_not);
}

std::string as_json(const Job &job, const std::vector<Finding> &findings)
{
    auto part = [](const Part &part) {
        return "{\"name\":" + json_string(part.name) + ",\"detail\":" + json_string_or_null(part.detail) + "," +
               json_verdict(part.why_not) + "}";
    };
    auto device = [&](const Finding &finding) {
        return "\n{\"device\":" + json_string(device_name(finding.device)) +
               ",\"version\":" + json_string_or_null(finding.version) + "," + json_verdict(finding.why_not) +
               ",\"parts\":" + json_list(finding.parts, part) + "}";
    };
    auto network = [](const LocalNetwork &each) {
        return "\n{\"name\":" + json_string(each.network.name) +
               ",\"device\":" + json_string(device_name(each.network.device)) +
               ",\"priority\":" + std::to_string(each.network.priority) + ",\"ports\":" + json_list(each.ports, json_string) +
               ",\"addresses\":" + json_list(address_texts(each), json_string) + "}";
    };
    return "{\"host\":" + json_string(host_name()) + ",\"devices\":" + json_list(findings, device) +
           ",\"networks\":" + json_list(job.networks, network) + ",\"errors\":" + json_list(job.errors, json_string) + "}\n";
}

}  // namespace

int devices(Words words)
{
    bool json = !words.empty() && std::string_view(words[0]) == "--json";
    if (words.size() > (json ? 1 : 0))
        return refuse("devices takes nothing but --json, not \"" + std::string(words[json ? 1 : 0]) + "\"");
    Job job = read_settings();
    std::vector<Finding> findings;
    findings.push_back(find_shmem(&job));
    find_networks(&job);
    findings.push_back(find_ucx(&job));
    findings.push_back(find_udp(&job));
    std::fputs((json ? as_json(job, findings) : as_text(job, findings)).c_str(), stdout);
    return job.errors.empty() ? success : failure;
}

}  // namespace pm::inspector
