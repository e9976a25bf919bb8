// What a rank tells `composite-objects top`: a line by UDP twice a second, to the address that COMPOSITE_OBJECTS_TOP names.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace composite {

class Runtime;

class Reporter {
  public:
    // Null when nobody wants to know.
    static std::unique_ptr<Reporter> start(const Runtime &runtime);
    ~Reporter();

  private:
    Reporter(const Runtime &runtime, int socket, const char *token);
    void tell(const char *state);

    const Runtime &runtime_;
    const int socket_;
    const char *token_;
    std::mutex mutex_;
    std::condition_variable ending_;
    bool end_ = false;
    std::thread thread_;
};

}  // namespace composite
