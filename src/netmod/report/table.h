// A table as plain text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace pm {

using Table = std::vector<std::vector<std::string>>;

// Characters, not bytes.
inline std::size_t width(const std::string &text)
{
    return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

// Columns two apart, to the left or to the right; no blanks at the end of a line.
inline std::string aligned(const Table &table, bool to_the_right)
{
    std::vector<std::size_t> widths;
    for (const auto &row : table) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t column = 0; column < row.size(); ++column)
            widths[column] = std::max(widths[column], width(row[column]));
    }
    std::string text;
    for (const auto &row : table) {
        std::string line;
        for (std::size_t column = 0; column < row.size(); ++column) {
            std::string padding(widths[column] - width(row[column]), ' ');
            line += "  " + (to_the_right ? padding + row[column] : row[column] + padding);
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

}  // namespace pm
