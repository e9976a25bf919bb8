// Ranks that are threads of one process, for src/objects: each has a runtime, and messages are copied from one to the other.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "objects/runtime.hh"

namespace composite::test {

class Loop {
  public:
    explicit Loop(int size) : queues_(static_cast<std::size_t>(size)) {}

    // Thrown by `body` for a rank that dies: it does nothing more, and others can find that out.
    struct Dies {};

    // Runs `body` on every rank at once, each with a runtime of its own, until all have finished, or cannot because one died.
    static void run(int size, const Options &options, const std::function<void(Runtime &)> &body)
    {
        Loop loop(size);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < size; ++rank)
            threads.emplace_back([&, rank] {
                Runtime runtime(std::make_unique<Port>(loop, rank), options);
                try {
                    body(runtime);
                } catch (const Dies &) {
                    loop.dead_ = rank;
                    return;
                } catch (const std::exception &error) {
                    ADD_FAILURE() << "rank " << rank << ": " << error.what();
                }
                try {
                    runtime.finish();
                } catch (const Error &error) {
                    EXPECT_GE(loop.dead_, 0) << "rank " << rank << ": " << error.what();
                }
            });
        for (auto &each : threads)
            each.join();
    }

  private:
    struct Message {
        int source;
        std::vector<std::byte> header;
        BlockPointer block;
    };
    struct Queue {
        std::mutex mutex;
        std::deque<Message> messages;
    };
    struct Port final : Network {
        Port(Loop &loop, int rank) : loop(loop), me(rank) {}
        void begin(Runtime &to) override { runtime = &to; }
        void end() override {}
        int rank() const override { return me; }
        int size() const override { return static_cast<int>(loop.queues_.size()); }
        void send(int rank, std::span<const std::byte> header, std::span<const std::byte> data) override
        {
            BlockPointer block;
            if (!data.empty()) {
                block.reset(Block::take(data.size()));
                std::memcpy(block->data(), data.data(), data.size());
            }
            Queue &queue = loop.queues_[static_cast<std::size_t>(rank)];
            std::lock_guard lock(queue.mutex);
            queue.messages.push_back({me, {header.begin(), header.end()}, std::move(block)});
        }
        void progress() override
        {
            Queue &queue = loop.queues_[static_cast<std::size_t>(me)];
            std::unique_lock lock(queue.mutex);
            if (queue.messages.empty())
                return;
            Message message = std::move(queue.messages.front());
            queue.messages.pop_front();
            lock.unlock();
            runtime->arrived(message.source, message.header, std::move(message.block));
        }
        void sleep() override { std::this_thread::yield(); }
        bool alive(int rank) override { return loop.dead_ != rank; }
        Loop &loop;
        const int me;
        Runtime *runtime = nullptr;
    };
    std::vector<Queue> queues_;
    std::atomic<int> dead_{-1};
};

}  // namespace composite::test
