// Messages of any content from other ranks for composite/objects: calls, parts of calls, answers, credit, requests of its services. What is no message
// is refused by an Error, to whom it came from or to nobody; each call has at most one answer, and so has each that waits here.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/fuzz.h"
#include "objects/ref.hh"
#include "objects/runtime.hh"

namespace pm::fuzz {
namespace {

using namespace composite;

constexpr int ranks = 3;

class Kept {
  public:
    explicit Kept(int value) : value_(value) {}
    int add(int more) { return static_cast<int>(static_cast<unsigned>(value_) + static_cast<unsigned>(more)); }
    void set(int value, std::string text) { value_ = value + static_cast<int>(text.size() % 8); }
    long sum(std::span<const int> numbers, std::string_view text)
    {
        touch(numbers.data(), numbers.size_bytes());
        touch(text.data(), text.size());
        return value_;
    }
    Buffer echo(Buffer bytes) { return bytes; }
    int fails() { throw Error("it never works"); }

  private:
    int value_;
};
COMPOSITE_TYPE(Kept, (int), add, set, sum, echo, fails)

// What the runtime sends to others.
class Answers final : public Network {
  public:
    void begin(Runtime &) override {}
    void end() override {}
    int rank() const override { return 0; }
    int size() const override { return ranks; }
    void send(int rank, std::span<const std::byte> header, std::span<const std::byte> data) override
    {
        Wire wire;
        require(rank > 0 && rank < ranks && header.size() >= sizeof wire && header.size() <= largest_header, "it sends what is no message");
        std::memcpy(&wire, header.data(), sizeof wire);
        touch(header.data(), header.size());
        touch(data.data(), data.size());
        if (wire.kind != Kind::value && wire.kind != Kind::failure)
            return;
        std::size_t &asked = calls[{rank, wire.call}];
        require(asked > 0, "an answer to nobody, or a second one");
        --asked;
        if (wire.kind != Kind::value || wire.all_in_data)
            return;
        std::vector<std::byte> inlined(header.begin() + sizeof wire, header.end());
        Reader from(inlined, {});
        if (from.value<std::uint32_t>() == signature<Address>)
            made = Codec<Address>::read(from);
    }
    void progress() override {}
    void sleep() override {}

    std::map<std::pair<int, std::uint64_t>, std::size_t> calls;  // that wait for an answer, by who asks
    Address made{};                                              // the last object of which somebody was told
};

class Target {
  public:
    explicit Target(Choices &choices) : choices_(choices)
    {
        auto network = std::make_unique<Answers>();
        answers_ = network.get();
        Options options;
        options.workers = 0;
        runtime_ = std::make_unique<Runtime>(std::move(network), options);
        runtime_->on_error([](const std::string &text) { touch(text.data(), text.size()); });
        Writer arguments;
        Codec<std::string>::write(arguments, "Kept");
        arguments.value(signature<int>);
        arguments.value(7);
        Wire wire{Kind::service};
        wire.object = 1;
        wire.method = hash32("create");
        wire.call = 1;
        arrive(1, wire, arguments.inlined(), {});
        require(answers_->made.number != 0, "no object was made");
    }

    void run()
    {
        for (int count = 0; choices_.any() && count < 40; ++count)
            message();
    }

  private:
    void message()
    {
        static constexpr const char *names[] = {"add", "set", "sum", "echo", "fails", "create", "count messages", "end", "load", "unload", "loaded",
                                                "event woken", "event set", "event reset", "event wait", "event look"};
        static const std::uint32_t signatures[] = {signature<int>, signature<int, std::string>, signature<std::span<const int>, std::string_view>,
                                                   signature<Buffer>, signature<>, signature<std::string>};
        const std::uint8_t what = choices_.byte();
        Wire wire{static_cast<Kind>(what % 16 < 15 ? what % 8 : choices_.byte())};
        wire.uncounted = what & 16 ? 1 : 0;
        wire.object = what & 32 ? choices_.number(UINT32_MAX) : answers_->made.number;
        wire.sender = choices_.byte() % 4;
        const std::uint8_t method = choices_.byte();
        wire.method = method < 224 ? hash32(names[method % std::size(names)]) : static_cast<std::uint32_t>(choices_.number(UINT32_MAX));
        const std::uint8_t types = choices_.byte();
        wire.signature = types < 224 ? signatures[types % std::size(signatures)] : static_cast<std::uint32_t>(choices_.number(UINT32_MAX));
        const bool is_answer = wire.kind == Kind::value || wire.kind == Kind::failure || wire.kind == Kind::error;
        wire.call = choices_.one_in(8) ? choices_.number(UINT32_MAX) : is_answer || method % 16 == 11 ? expected() : choices_.byte() % 4;
        std::vector<std::byte> inlined = arguments();
        if (method % 16 == 11 && wire.kind == Kind::service) {  // of a call that waits here
            Writer woken;
            Codec<std::vector<std::pair<int, std::uint64_t>>>::write(woken, {{choices_.byte() % ranks, wire.call}});
            inlined.assign(woken.inlined().begin(), woken.inlined().end());
            bulk_.resize(woken.bulk_bytes());
            woken.copy_bulk(bulk_.data());
        }
        arrive(1 + what / 64 % 2, wire, inlined, bulk_);
    }

    // As they are written, and anything.
    std::vector<std::byte> arguments()
    {
        Writer writer;
        bulk_.clear();
        const std::uint8_t how = choices_.byte();
        switch (how % 4) {
            case 0:
                writer.value(static_cast<int>(choices_.byte()));
                if (how & 4)
                    Codec<std::string>::write(writer, std::string(choices_.byte(), 'a'));
                break;
            case 1:
                Codec<std::string>::write(writer, how & 4 ? "Kept" : "here");
                writer.value(how & 8 ? signature<int> : choices_.byte());
                writer.value(static_cast<int>(choices_.byte()));
                break;
            default: {
                const auto bytes = std::as_bytes(choices_.bytes(choices_.byte() % 64));
                const auto more = std::as_bytes(choices_.bytes(how & 8 ? choices_.byte() : 0));
                bulk_.assign(more.begin(), more.end());
                return {bytes.begin(), bytes.end()};
            }
        }
        bulk_.resize(writer.bulk_bytes());
        writer.copy_bulk(bulk_.data());
        return {writer.inlined().begin(), writer.inlined().end()};
    }

    // Something waits for an answer of rank 1: a number, or that something is done.
    std::uint64_t expected()
    {
        const std::uint64_t call = choices_.one_in(2) ? runtime_->expect(std::make_shared<AwaitedValue<std::string>>(), 1)
                                                      : runtime_->expect(std::make_shared<AwaitedValue<void>>(), 1);
        return call;
    }

    void arrive(int source, Wire wire, std::span<const std::byte> inlined, const std::vector<std::byte> &data)
    {
        std::vector<std::byte> header(sizeof wire), all(data);
        wire.all_in_data = !first_ && choices_.one_in(4);
        wire.inlined = static_cast<std::uint32_t>(!first_ && choices_.one_in(16) ? choices_.number(256) : inlined.size());
        if (wire.all_in_data) {
            all.assign(inlined.begin(), inlined.end());
            all.resize(Writer::rounded(all.size()));
            all.insert(all.end(), data.begin(), data.end());
        } else {
            header.insert(header.end(), inlined.begin(), inlined.end());
        }
        std::memcpy(header.data(), &wire, sizeof wire);
        if (!first_ && choices_.one_in(32))
            header.resize(choices_.byte() % header.size());
        BlockPointer block;
        if (!all.empty()) {
            block.reset(Block::take(all.size()));
            std::memcpy(block->data(), all.data(), all.size());
        }
        first_ = false;
        if (wire.call != 0 && (wire.kind == Kind::call || wire.kind == Kind::service))
            ++answers_->calls[{source, wire.call}];
        runtime_->arrived(source, header, std::move(block));
        // A service that counts messages comes to no end while we look: it is left alone.
        for (int turns = 0; turns == 0 || (turns < 16 && runtime_->worker(0).queued() > 0); ++turns)
            Worker::current().yield();
    }

    Choices &choices_;
    bool first_ = true;
    Answers *answers_ = nullptr;
    std::unique_ptr<Runtime> runtime_;
    std::vector<std::byte> bulk_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
