// What a call that can fail answers. One place (src/ch4) maps it to an MPI error.
#pragma once

#include <string>
#include <utility>

namespace pm {

enum class [[nodiscard]] Status {
    ok,
    again,          // nothing was consumed; try later
    unreachable,    // the peer is not on this device's network, or is gone
    no_memory,      // memory or shared memory is used up
    invalid,        // a setting or argument has no meaning here
    failed,         // the operating system refused; the error text says why
};

// A Status with a sentence for the user: what was tried, on what, and what can be done.
struct Error {
    Status status = Status::ok;
    std::string text;

    explicit operator bool() const { return status != Status::ok; }
};

// A value, or the error that took its place.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::move(value)) {}
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const { return error_.status == Status::ok; }
    T &value() { return value_; }
    const Error &error() const { return error_; }

  private:
    T value_{};
    Error error_;
};

// "text: <what errno says>"
Error system_error(const std::string &text, int error_number);

}  // namespace pm
