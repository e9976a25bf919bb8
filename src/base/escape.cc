#include "base/escape.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace pm {
namespace {

const char *const replacement = "\xef\xbf\xbd";  // U+FFFD

// The size of the character that `text` starts with; 0 when it is none: cut short, longer than needed, or not in Unicode.
std::size_t character_size(std::string_view text)
{
    auto byte = [&](std::size_t place) { return static_cast<std::uint8_t>(text[place]); };
    if (byte(0) < 0x80)
        return 1;
    std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size)
        return 0;
    for (std::size_t place = 1; place < size; ++place)
        if ((byte(place) & 0xc0) != 0x80)
            return 0;
    bool too_long = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
    bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
    bool too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
    return too_long || surrogate || too_large ? 0 : size;
}

bool is_control(std::string_view character)
{
    auto first = static_cast<std::uint8_t>(character[0]);
    return first < 0x20 || first == 0x7f || (first == 0xc2 && static_cast<std::uint8_t>(character[1]) < 0xa0);
}

// Each character of `text` as `escaped` writes it.
template <class Escaped>
std::string each_character(std::string_view text, Escaped escaped)
{
    std::string result;
    while (!text.empty()) {
        std::size_t size = character_size(text);
        if (size == 0)
            result += replacement;
        else
            result += escaped(text.substr(0, size));
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return result;
}

}  // namespace

std::string json_string(std::string_view text)
{
    return "\"" + each_character(text, [](std::string_view character) {
        if (character == "\"" || character == "\\")
            return "\\" + std::string(character);
        if (!is_control(character) || character.size() > 1)
            return std::string(character);
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(character[0]));
        return std::string(code);
    }) + "\"";
}

std::string json_string_or_null(std::string_view text)
{
    return text.empty() ? "null" : json_string(text);
}

std::string html_text(std::string_view text)
{
    return each_character(text, [](std::string_view character) -> std::string {
        if (character == "&")
            return "&amp;";
        if (character == "<")
            return "&lt;";
        if (character == ">")
            return "&gt;";
        if (character == "\"")
            return "&quot;";
        return is_control(character) ? replacement : std::string(character);
    });
}

std::string plain_text(std::string_view text)
{
    return each_character(text, [](std::string_view one) { return is_control(one) ? "?" : std::string(one); });
}

std::string shell_word(std::string_view text)
{
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos)
        return std::string(text);
    std::string quoted = "'";
    for (char one : text)
        quoted += one == '\'' ? "'\\''" : std::string(1, one);
    return quoted + "'";
}

}  // namespace pm
