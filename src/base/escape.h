// Text from anywhere (a host name may hold any byte) inside text of ours. What comes out is well-formed UTF-8 and holds nothing
// that ends a string, a tag or a line; a byte that is no part of UTF-8 becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace pm {

// With its quotation marks.
std::string json_string(std::string_view text);
// As json_string(), and null for no text.
std::string json_string_or_null(std::string_view text);

// For the content of an element, and for an attribute between quotation marks.
std::string html_text(std::string_view text);

// For a terminal: a control character becomes "?".
std::string plain_text(std::string_view text);

// As it is, or in quotation marks where a shell would not take it for one word. Any byte stays what it is.
std::string shell_word(std::string_view text);

}  // namespace pm
