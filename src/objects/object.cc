#include "object.hh"

#include <algorithm>
#include <mutex>
#include <new>

#include "library.hh"
#include "runtime.hh"

namespace composite {

namespace {

struct Registry {
    std::mutex mutex;
    std::vector<Type *> types;
};

// Types register before main, in whatever order, and go after it.
Registry &registry()
{
    static Registry &instance = *new Registry;
    return instance;
}

template <class F>
Type *find_type(F f)
{
    std::lock_guard lock(registry().mutex);
    for (Type *each : registry().types)
        if (f(*each))
            return each;
    return nullptr;
}

void leave(Object &object)
{
    if (--object.active == 0 && object.gone)
        release_object(&object, true);
}

}  // namespace

void Types::add(Type *type)
{
    type->library = Library::being_loaded();
    std::lock_guard lock(registry().mutex);
    registry().types.push_back(type);
}

void Types::remove(Type *type)
{
    std::lock_guard lock(registry().mutex);
    std::erase(registry().types, type);
}

Type *Types::by_name(std::string_view name)
{
    return find_type([&](const Type &each) { return each.name == name; });
}
Type *Types::by_mangled(const char *mangled)
{
    return find_type([&](const Type &each) { return std::strcmp(each.mangled, mangled) == 0; });
}

void *allocate_object(Worker &worker, const Type &type)
{
    const std::size_t alignment = std::max(type.alignment, alignof(std::max_align_t));
    void *memory = ::operator new(type.offset() + type.size, std::align_val_t{alignment});
    try {
        if (type.library != nullptr)
            type.library->made();
    } catch (...) {
        ::operator delete(memory, std::align_val_t{alignment});
        throw;
    }
    Worker::count(worker.alive);
    return memory;
}

void release_object(Object *object, bool whole)
{
    const Type &type = *object->type;
    Worker &worker = Worker::current();
    if (whole) {
        Object *const before = std::exchange(worker.object, object);
        type.destroy(object->instance());
        worker.object = before;
    }
    while (Parts *each = object->parts) {
        object->parts = each->next;
        delete each;
    }
    // Only at the end of the session there are still some.
    while (Item *each = object->pending) {
        object->pending = each->next;
        each->forget();
    }
    delete object->heap;
    Library *library = type.library;
    const std::size_t alignment = std::max(type.alignment, alignof(std::max_align_t));
    object->~Object();
    ::operator delete(object, std::align_val_t{alignment});
    Worker::count(worker.alive, -1);
    // It may have been the last one: the type is gone then.
    if (library != nullptr)
        library->released();
}

void destroy_object(Worker &worker, Object *object)
{
    worker.objects.remove(object->number);
    object->gone = true;
    ++object->active;
    while (auto *each = static_cast<Call *>(object->pending)) {
        object->pending = each->next;
        each->answer.failed("the object was destroyed before the message could be handled");
        delete each;
    }
    leave(*object);
}

bool Call::ready(Object &target)
{
    if (target.held)
        return false;
    if (!target.type->guarded)
        return true;
    try {
        const Method *method = method_in(target);
        return method == nullptr || method->ready == nullptr || method->ready(target.instance());
    } catch (...) {
        return true;  // It is to fail, which it will do when it is run.
    }
}

void Call::finish(Worker &worker, Object &target)
{
    {
        Running running(worker, &target, answer.sender);
        Runs runs(worker, this);
        try {
            execute(target);
        } catch (const std::exception &error) {
            answer.failed(error.what());
        } catch (...) {
            answer.failed("the method threw something that is no std::exception");
        }
    }
    Worker::count(worker.ran);
    delete this;
}

namespace {

// Runs what is pending and ready, in the order it came; each may make others ready.
void run_pending(Worker &worker, Object &object)
{
    Item *before = nullptr;
    while (!object.gone) {
        auto *call = static_cast<Call *>(before == nullptr ? object.pending : before->next);
        if (call == nullptr)
            break;
        if (!call->ready(object)) {
            before = call;
            continue;
        }
        (before == nullptr ? object.pending : before->next) = call->next;
        if (object.last_pending == call)
            object.last_pending = before;
        call->finish(worker, object);
        before = nullptr;
    }
}

}  // namespace

void Call::run(Worker &worker)
{
    Object *target = worker.objects.find(object);
    if (target == nullptr) {
        answer.failed("there is no object " + std::to_string(object) + " on rank " + std::to_string(worker.runtime.rank()) +
                      ": it is gone, or never was");
        delete this;
        return;
    }
    ++target->active;
    if (target->pending == nullptr && ready(*target)) {
        finish(worker, *target);
    } else {
        // Behind those that came before, which may be ready by now.
        next = nullptr;
        (target->pending == nullptr ? target->pending : target->last_pending->next) = this;
        target->last_pending = this;
    }
    if (target->pending != nullptr)
        run_pending(worker, *target);
    leave(*target);
}

void run_as_method(Worker &worker, Object &object, const std::function<void()> &f)
{
    ++object.active;
    {
        Running running(worker, &object, {});
        f();
    }
    run_pending(worker, object);
    leave(object);
}

void recheck(Worker &worker, Object &object)
{
    struct Recheck : Item {
        explicit Recheck(std::uint64_t number) : number(number) {}
        void run(Worker &worker) override
        {
            if (Object *object = worker.objects.find(number)) {
                ++object->active;
                run_pending(worker, *object);
                leave(*object);
            }
            delete this;
        }
        std::uint64_t number;
    };
    worker.post(new Recheck(object.number));
}

}  // namespace composite
