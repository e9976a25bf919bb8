#include "ref.hh"

namespace composite {

namespace {

void create_here(Worker &worker, int, Reader &from, Answer &answer)
{
    const std::string name = Codec<std::string>::read(from);
    const auto given = from.value<std::uint32_t>();
    const Type *type = Types::by_name(name);
    if (type == nullptr)
        throw Error("rank " + std::to_string(worker.runtime.rank()) + " has no type " + name +
                    ": it is not declared in this program, nor in a library that was loaded there");
    if (type->signature != given)
        throw Error("the arguments for a new " + name + " do not decode: its constructor takes other types");
    Object *made = make_object(worker, *type, [&](void *memory) { type->construct(memory, from); });
    answer.value(Address{worker.runtime.rank(), made->number});
}

const std::uint32_t create_service = Runtime::add_service("create", create_here);

}  // namespace

void send_create(int rank, const Writer &arguments, std::shared_ptr<Awaited> awaited)
{
    Runtime::current().ask(rank, create_service, arguments, std::move(awaited), true);
}

void AnyRef::send_call(int rank, Wire &wire, const Writer &writer, const std::shared_ptr<Awaited> &awaited)
{
    Runtime &runtime = Runtime::current();
    if (awaited != nullptr)
        wire.call = runtime.expect(awaited, rank);
    try {
        runtime.send(rank, wire, writer);
    } catch (const Error &error) {
        if (awaited == nullptr)
            throw;
        if (auto expected = runtime.take_expected(wire.call, rank))
            expected->fail(error.what());
    }
}

Address self_address()
{
    Worker &worker = Worker::current();
    if (worker.object == nullptr)
        throw Error("self() has a meaning in methods only");
    return {worker.runtime.rank(), worker.object->number};
}

AnyRef sender() { return AnyRef(Worker::current().sender); }

}  // namespace composite
