#include "netmod/ucx/resources.h"

#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace pm::ucx {
namespace {

// UCX tells what it would use only in words: "resource 1 : md 1 dev 2 flags -- tcp/eth0".
std::vector<Resource> read_resources(const std::string &words)
{
    std::vector<Resource> found;
    std::istringstream lines(words);
    for (std::string line; std::getline(lines, line);) {
        std::size_t space = line.find_last_of(' '), slash = line.find('/', space == std::string::npos ? 0 : space);
        if (line.find("resource ") == std::string::npos || space == std::string::npos || slash == std::string::npos)
            continue;
        Resource resource{line.substr(space + 1, slash - space - 1), line.substr(slash + 1)};
        resource.network = !resource.device.starts_with("memory");
        found.push_back(std::move(resource));
    }
    return found;
}

}  // namespace

std::vector<Resource> find_resources()
{
    ucp_config_t *config = nullptr;
    if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK)
        return {};
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    ucp_context_h context = nullptr;
    ucs_status_t status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return {};
    std::vector<Resource> found = resources_of(context);
    ucp_cleanup(context);
    return found;
}

std::vector<Resource> resources_of(ucp_context_h context)
{
    char *words = nullptr;
    std::size_t size = 0;
    std::vector<Resource> found;
    if (FILE *stream = open_memstream(&words, &size); stream != nullptr) {
        ucp_context_print_info(context, stream);
        std::fclose(stream);
        found = read_resources({words, size});
        std::free(words);
    }
    return found;
}

bool writes_by_itself(const Resource &resource)
{
    return resource.network && (resource.transport.starts_with("rc") || resource.transport.starts_with("dc"));
}

std::string version()
{
    return ucp_get_version_string();
}

}  // namespace pm::ucx
