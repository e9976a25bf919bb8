// A hash table that is spread over all ranks: an object on each has a part of it, and whoever wants a key asks the object it belongs to.
//     mpicxx -std=c++20 -O2 table.cc -o table $(pkg-config --cflags --libs composite-objects)
//     mpiexec -n 4 ./table [--keys N]
#include <composite/objects.hh>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

// A part of the table, in the heap of the object: it goes at once with it.
class Part {
  public:
    void insert(std::string key, std::string value) { entries_[std::pmr::string(key, composite::heap())] = value; }
    std::optional<std::string> find(const std::string &key)
    {
        const auto found = entries_.find(std::pmr::string(key, composite::heap()));
        if (found == entries_.end())
            return std::nullopt;
        return std::string(found->second);
    }
    std::size_t size() { return entries_.size(); }

  private:
    std::pmr::unordered_map<std::pmr::string, std::pmr::string> entries_{composite::heap()};
};
COMPOSITE_TYPE(Part, (), insert, find, size)

class Table {
  public:
    explicit Table(std::vector<composite::Ref<Part>> parts) : parts_(std::move(parts)) {}
    // Goes on at once.
    void insert(const std::string &key, const std::string &value) const { part_of(key).past(&Part::insert, key, value); }
    composite::Future<std::optional<std::string>> find(const std::string &key) const { return part_of(key).future(&Part::find, key); }
    std::size_t size() const
    {
        std::vector<composite::Future<std::size_t>> sizes;
        for (const auto &each : parts_)
            sizes.push_back(each.future(&Part::size));
        std::size_t sum = 0;
        for (const std::size_t each : composite::when_all(std::move(sizes)).get())
            sum += each;
        return sum;
    }

  private:
    const composite::Ref<Part> &part_of(const std::string &key) const { return parts_[std::hash<std::string>()(key) % parts_.size()]; }
    std::vector<composite::Ref<Part>> parts_;
};

int main(int count, char **values)
{
    const int keys = count == 3 && std::strcmp(values[1], "--keys") == 0 ? std::atoi(values[2]) : 20000;
    MPI_Init(&count, &values);
    int status = 0;
    {
        composite::Session session(MPI_COMM_WORLD);
        // One object on each rank, and everybody is told where they are, by MPI.
        auto mine = composite::create<Part>(session.rank());
        std::vector<composite::Ref<Part>> parts(static_cast<std::size_t>(session.size()));
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, parts.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
        const Table table(parts);

        const double begin = MPI_Wtime();
        for (int i = session.rank(); i < keys; i += session.size())
            table.insert("key " + std::to_string(i), "value " + std::to_string(i));
        session.finish();  // Everything is inserted, by all.
        const double inserted = MPI_Wtime();

        // Many questions at a time, not one after the other.
        std::vector<composite::Future<std::optional<std::string>>> answers;
        for (int i = session.rank(); i < keys; i += session.size())
            answers.push_back(table.find("key " + std::to_string((i + 1) % keys)));
        int wrong = 0;
        for (int i = session.rank(), j = 0; i < keys; i += session.size(), ++j)
            wrong += answers[static_cast<std::size_t>(j)].get() != "value " + std::to_string((i + 1) % keys);
        wrong += table.find("no key").get().has_value();
        wrong += table.size() != static_cast<std::size_t>(keys);
        session.finish();
        const double found = MPI_Wtime();

        int all_wrong = 0;
        MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (session.rank() == 0)
            std::printf("%d keys on %d ranks: inserted in %.0f ms, found in %.0f ms, %d wrong\n", keys, session.size(),
                        (inserted - begin) * 1e3, (found - inserted) * 1e3, all_wrong);
        status = all_wrong != 0;
    }
    MPI_Finalize();
    return status;
}
