// What went wrong with a message, told to who sent it.
#pragma once

#include <stdexcept>
#include <string>

namespace composite {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace composite
