// The network of a simulated job: messages between two ranks stay in order, and are otherwise as late as a seed says.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace pm::test {

template <class Message>
class Wires {
  public:
    using Way = std::pair<int, int>;  // from, to

    std::deque<Message> &operator[](Way way) { return queues_[way]; }
    // The first one of any way that has one.
    std::optional<std::pair<Way, Message>> take_one(std::mt19937 &random)
    {
        std::vector<Way> ready;
        for (auto &[way, queue] : queues_)
            if (!queue.empty())
                ready.push_back(way);
        if (ready.empty())
            return {};
        const Way way = ready[random() % ready.size()];
        std::pair taken(way, std::move(queues_[way].front()));
        queues_[way].pop_front();
        return taken;
    }

  private:
    std::map<Way, std::deque<Message>> queues_;
};

}  // namespace pm::test
