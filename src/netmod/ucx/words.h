// What UCX says when something goes wrong. It would print it; here it becomes part of an error's sentence instead, unless the user
// set UCX_LOG_LEVEL and wants to see it all.
#pragma once

#include <string>

namespace pm::ucx {

// From now on, for the whole process.
void listen_to_ucx();

// What was said last, once: "; UCX said: ...", or nothing.
std::string last_words();

}  // namespace pm::ucx
