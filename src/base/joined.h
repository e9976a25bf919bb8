// Words in one text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pm {

inline std::string joined(const std::vector<std::string> &words, std::string_view between)
{
    std::string text;
    for (const std::string &word : words)
        text.append(text.empty() ? "" : between).append(word);
    return text;
}

}  // namespace pm
