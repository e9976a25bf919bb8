// Random messages among objects on all ranks. Each message has a number that counts those from its sender to its receiver, and a payload of
// random length made from both: order and content are checked where it arrives, and that all have arrived at the end.
// Usage: random [--objects N] [--messages N] [--workers N] [--seed N]
#include "session.h"

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

using composite::Ref;

namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b)
{
    std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9;
    return x ^ x >> 32;
}

std::size_t length_of(std::uint64_t key)
{
    const std::uint64_t kind = key % 1000;
    return kind < 900 ? key / 1000 % 8 : kind < 995 ? key / 1000 % 300 : key / 1000 % 20000;
}

struct Talker {
    Talker(int index, long seed) : index(index), random(mix(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(index))) {}

    void meet(const std::vector<Ref<Talker>> &all) { others = all; }

    // Sends so many, at most a few at a time, so that others of this worker have their turn.
    void talk(long left)
    {
        for (int i = 0; i < 20 && left > 0; ++i, --left) {
            const auto to = random() % others.size();
            const std::uint64_t number = sent[to]++;
            const std::uint64_t key = mix(mix(static_cast<std::uint64_t>(index), to), number);
            std::vector<std::uint64_t> words(length_of(key));
            for (std::size_t j = 0; j < words.size(); ++j)
                words[j] = key + j;
            if (key % 64 == 7)
                wrong += others[to].now(&Talker::hear_and_answer, index, number, std::move(words)) != key;
            else
                others[to].past(&Talker::hear, index, number, std::move(words));
        }
        if (left > 0)
            composite::self<Talker>().past(&Talker::talk, left);
    }

    void hear(int from, std::uint64_t number, const std::vector<std::uint64_t> &words)
    {
        const std::uint64_t key = mix(mix(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(index)), number);
        wrong += number != heard[from]++ || words.size() != length_of(key);
        for (std::size_t j = 0; j < words.size(); ++j)
            wrong += words[j] != key + j;
        ++count;
    }
    std::uint64_t hear_and_answer(int from, std::uint64_t number, const std::vector<std::uint64_t> &words)
    {
        hear(from, number, words);
        return mix(mix(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(index)), number);
    }
    std::pair<long, long> result() { return {count, wrong}; }

    int index;
    std::mt19937_64 random;
    std::vector<Ref<Talker>> others;
    std::unordered_map<std::size_t, std::uint64_t> sent;
    std::unordered_map<int, std::uint64_t> heard;
    long count = 0, wrong = 0;
};
COMPOSITE_TYPE(Talker, (int, long), meet, talk, hear, hear_and_answer, result)

}  // namespace

int main(int count, char **values)
{
    Started started(count, values);
    const long objects = argument(count, values, "--objects", 1000), messages = argument(count, values, "--messages", 200000);
    const long seed = argument(count, values, "--seed", 1);
    composite::Session session(MPI_COMM_WORLD, started.options);
    std::vector<Ref<Talker>> all;
    if (session.rank() == 0) {
        std::vector<composite::Future<Ref<Talker>>> made;
        for (long i = 0; i < objects; ++i)
            made.push_back(composite::create_future<Talker>(static_cast<int>(i) % session.size(), static_cast<int>(i), seed));
        for (auto &each : made)
            all.push_back(each.get());
        std::vector<composite::Future<void>> met;
        for (const auto &each : all)
            met.push_back(each.future(&Talker::meet, all));
        when_all(std::move(met)).get();
        for (const auto &each : all)
            each.past(&Talker::talk, messages / objects);
    }
    session.finish();
    if (session.rank() == 0) {
        long heard = 0, wrong = 0;
        for (const auto &each : all) {
            const auto [h, w] = each.now(&Talker::result);
            heard += h;
            wrong += w;
        }
        std::printf("%ld messages among %ld objects on %d ranks, %ld of them wrong\n", heard, objects, session.size(), wrong);
        EXPECT(heard == messages / objects * objects);
        EXPECT(wrong == 0);
    }
    session.finish();
}
