// Types of objects, their methods, and an object as its worker knows it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "codec.hh"
#include "error.hh"
#include "heap.hh"
#include "worker.hh"

namespace composite {

class Answer;
class Parts;
struct Arrived;
struct Call;
struct Library;
struct Type;

// A method as others name it. Pointers to it are compared by their bytes.
struct Method {
    const char *name;
    std::uint32_t id, signature;
    unsigned char pointer[2 * sizeof(void *)];
    // Decodes the arguments, calls, and answers. What it throws is answered by who calls it.
    void (*invoke)(void *instance, Reader &from, Answer &answer);
    // Where it is declared: whether the method may run now (COMPOSITE_WHEN).
    bool (*ready)(void *instance) = nullptr;
    // One parameter of it, which came as a message of its own: it is kept until all have come, then the method runs.
    void (*part)(Object &object, const Method &method, std::size_t place, std::uint32_t signature, Reader &from) = nullptr;
};

struct Object {
    const Type *type;
    std::uint64_t number = 0;
    Heap *heap = nullptr;
    Item *pending = nullptr, *last_pending = nullptr;  // messages that must wait, in the order they came
    std::uint32_t active = 0;  // methods that have begun and not ended
    bool held = false, gone = false;
    Parts *parts = nullptr;  // messages of methods that want several

    void *instance();
};

// What came of one method that wants several messages.
class Parts {
  public:
    virtual ~Parts() = default;
    const Method *method = nullptr;
    Parts *next = nullptr;
};

struct Type {
    std::string name;
    std::size_t size, alignment;
    std::uint32_t signature;  // of the constructor
    void (*construct)(void *memory, Reader &from);
    void (*destroy)(void *instance);
    void (*failed)(void *instance, const Error &error);  // null: it does not want to know
    const char *mangled;
    std::vector<Method> methods;
    bool guarded = false;
    Library *library = nullptr;

    const Method *find(std::uint32_t id) const
    {
        for (const Method &each : methods)
            if (each.id == id)
                return &each;
        return nullptr;
    }
    const Method *find_pointer(const void *pointer) const
    {
        for (const Method &each : methods)
            if (std::memcmp(each.pointer, pointer, sizeof each.pointer) == 0)
                return &each;
        return nullptr;
    }
    std::size_t offset() const { return (sizeof(Object) + alignment - 1) / alignment * alignment; }
};

inline void *Object::instance() { return reinterpret_cast<char *>(this) + type->offset(); }

// All types of the process. Of two with one name the first is found by it.
class Types {
  public:
    static void add(Type *type);
    static void remove(Type *type);
    static Type *by_name(std::string_view name);
    static Type *by_mangled(const char *mangled);
};

// Hidden, as otherwise its variable would keep a library from being unloaded. Types of libraries come and go: what is found is not kept.
template <class T>
__attribute__((visibility("hidden"))) const Type &type_of()
{
    static std::atomic<const Type *> known{nullptr};
    const Type *type = known.load(std::memory_order_acquire);
    if (type != nullptr)
        return *type;
    type = Types::by_mangled(typeid(T).name());
    if (type == nullptr)
        throw Error(std::string("the type ") + typeid(T).name() + " is not declared: COMPOSITE_TYPE says its constructor and its methods");
    if (type->library == nullptr)
        known.store(type, std::memory_order_release);
    return *type;
}

// Memory and a place in the table of this worker; the constructor is run by `construct(instance)`, as a method of the object.
template <class F>
Object *make_object(Worker &worker, const Type &type, F construct);
// Of this worker: gone for others at once, destroyed when no method of it is left.
void destroy_object(Worker &worker, Object *object);
// Destroys it without a word; `whole`: its constructor has succeeded.
void release_object(Object *object, bool whole);
// A method that waits may have made others ready: they are run later.
void recheck(Worker &worker, Object &object);
// What is no message but runs like one. It must not throw.
void run_as_method(Worker &worker, Object &object, const std::function<void()> &f);

// While it lives, a method of the object runs on this worker.
class Running {
  public:
    Running(Worker &worker, Object *object, Address sender) : worker_(worker), object_(worker.object), sender_(worker.sender)
    {
        worker.object = object;
        worker.sender = sender;
        ++object->active;
    }
    ~Running()
    {
        --worker_.object->active;
        worker_.object = object_;
        worker_.sender = sender_;
    }

  private:
    Worker &worker_;
    Object *object_;
    Address sender_;
};

// Counts it, and throws Error when its library is about to go.
void *allocate_object(Worker &worker, const Type &type);

template <class F>
Object *make_object(Worker &worker, const Type &type, F construct)
{
    auto *object = new (allocate_object(worker, type)) Object{&type};
    object->number = worker.objects.add(object, worker.index);
    try {
        Running running(worker, object, worker.sender);
        construct(object->instance());
    } catch (...) {
        worker.objects.remove(object->number);
        release_object(object, false);
        throw;
    }
    return object;
}

}  // namespace composite
