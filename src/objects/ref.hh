// References to objects, and how their methods are called.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "codec.hh"
#include "future.hh"
#include "object.hh"
#include "runtime.hh"
#include "trap.hh"

namespace composite {

class AnyRef;
template <class T>
class Ref;
template <>
struct OnTheWay<AnyRef> {
    using Type = Address;
};
template <class T>
struct OnTheWay<Ref<T>> {
    using Type = Address;
};

// ---- arguments --------------------------------------------------------------------------------------------------------

// What a parameter is when it is decoded, and what is kept of an argument until the method runs: views need something to look at.
template <class P>
using Decoded = std::decay_t<P>;
template <class P, class A>
struct Kept {
    using Type = std::conditional_t<IsView<Decoded<P>>::value, std::decay_t<A>, Decoded<P>>;
};
template <class P, class A>
    requires(IsView<Decoded<P>>::value && std::is_convertible_v<A, std::string_view>)
struct Kept<P, A> {
    using Type = std::string;
};
template <class P, class A>
    requires(IsView<Decoded<P>>::value && IsView<std::decay_t<A>>::value && !std::is_convertible_v<A, std::string_view>)
struct Kept<P, A> {
    using Type = std::vector<std::remove_const_t<typename std::decay_t<A>::element_type>>;
};

template <class K, class A>
K keep(A &&argument)
{
    if constexpr (IsView<std::decay_t<A>>::value && !std::is_convertible_v<A, std::string_view>)
        return K(argument.begin(), argument.end());
    else
        return K(std::forward<A>(argument));
}

template <class P, class K>
decltype(auto) pass(K &kept)
{
    static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                  "a parameter that the method could change for the sender cannot travel: take it by value and return it");
    if constexpr (IsView<Decoded<P>>::value)
        return Decoded<P>(kept);
    else if constexpr (std::is_lvalue_reference_v<P>)
        return static_cast<const Decoded<P> &>(kept);
    else
        return static_cast<Decoded<P> &&>(kept);
}

template <class P, class A>
void encode(Writer &writer, const A &argument)
{
    if constexpr (std::is_same_v<std::decay_t<A>, Decoded<P>>)
        Codec<Decoded<P>>::write(writer, argument);
    else if constexpr (std::is_same_v<typename OnTheWay<std::decay_t<A>>::Type, typename OnTheWay<Decoded<P>>::Type> &&
                       !std::is_pointer_v<std::decay_t<A>>)
        Codec<std::decay_t<A>>::write(writer, argument);
    else if constexpr (std::is_same_v<Decoded<P>, std::string> || IsView<Decoded<P>>::value)
        Codec<Decoded<P>>::write(writer, argument);
    else {
        // Converted to what the method takes, which is gone before the message is sent.
        writer.keep_copies(true);
        Codec<Decoded<P>>::write(writer, Decoded<P>(argument));
        writer.keep_copies(false);
    }
}

// ---- methods ----------------------------------------------------------------------------------------------------------

template <class M>
struct Signature;
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> {
    using Result = R;
    using Class = C;
    using Parameters = std::tuple<P...>;
    using Arguments = std::tuple<Decoded<P>...>;
    static constexpr std::uint32_t number = signature<P...>;
    static constexpr std::size_t count = sizeof...(P);
    template <class T>
    using In = R (T::*)(P...);
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const> : Signature<R (C::*)(P...)> {
    template <class T>
    using In = R (T::*)(P...) const;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) noexcept> : Signature<R (C::*)(P...)> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (C::*)(P...) const> {};

template <class F>
void answer_with(Answer &answer, F f)
{
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        f();
        answer.done();
    } else {
        answer.value(f());
    }
}

// Messages of a method that wants one for each of its parameters: the first of each are one call.
template <class Arguments>
class PartsOf;
template <class... A>
class PartsOf<std::tuple<A...>> final : public Parts {
  public:
    std::tuple<std::deque<A>...> queues;
    bool complete() const
    {
        return std::apply([](const auto &...each) { return (!each.empty() && ...); }, queues);
    }
    std::tuple<A...> take()
    {
        return std::apply(
            [](auto &...each) {
                std::tuple<A...> first(std::move(each.front())...);
                (each.pop_front(), ...);
                return first;
            },
            queues);
    }
    static PartsOf &in(Object &object, const Method &method)
    {
        for (Parts *each = object.parts; each != nullptr; each = each->next)
            if (each->method == &method)
                return static_cast<PartsOf &>(*each);
        auto *made = new PartsOf;
        made->method = &method;
        made->next = object.parts;
        object.parts = made;
        return *made;
    }
};

template <class T, auto M>
struct Glue {
    using Known = Signature<decltype(M)>;
    using Parameters = typename Known::Parameters;
    using Arguments = typename Known::Arguments;

    static void invoke(void *instance, Reader &from, Answer &answer)
    {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            // In braces arguments are decoded from left to right.
            Arguments arguments{Codec<std::tuple_element_t<I, Arguments>>::read(from)...};
            from.finished();
            answer_with(answer, [&]() -> decltype(auto) {
                return (static_cast<T *>(instance)->*M)(pass<std::tuple_element_t<I, Parameters>>(std::get<I>(arguments))...);
            });
        }(std::make_index_sequence<Known::count>());
    }

    static void run_if_complete(Object &object, PartsOf<Arguments> &parts)
    {
        if (!parts.complete())
            return;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            Arguments arguments = parts.take();
            (static_cast<T *>(object.instance())->*M)(pass<std::tuple_element_t<I, Parameters>>(std::get<I>(arguments))...);
        }(std::make_index_sequence<Known::count>());
    }

    static void part(Object &object, const Method &method, std::size_t place, std::uint32_t given, Reader &from)
    {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            const bool found = ((I == place && given == signature<std::tuple_element_t<I, Arguments>> &&
                                 (std::get<I>(PartsOf<Arguments>::in(object, method).queues)
                                      .push_back(Codec<std::tuple_element_t<I, Arguments>>::read(from)),
                                  true)) ||
                                ...);
            if (!found)
                throw Error(std::string("the parameter of ") + method.name +
                            " that came by itself does not decode, or there is no such one");
        }(std::make_index_sequence<Known::count>());
        run_if_complete(object, PartsOf<Arguments>::in(object, method));
    }
};

// ---- declarations -----------------------------------------------------------------------------------------------------

template <class T, auto M>
Method declare_method(const char *name)
{
    using Known = Signature<decltype(M)>;
    const typename Known::template In<T> pointer = M;
    Method method{name, hash32(name), Known::number, {}, &Glue<T, M>::invoke, nullptr, nullptr};
    static_assert(sizeof pointer == sizeof method.pointer);
    std::memcpy(method.pointer, &pointer, sizeof pointer);
    // Views would outlive their messages.
    if constexpr (Known::count > 1 && []<class... A>(std::tuple<A...> *) {
                      return (!IsView<A>::value && ...);
                  }(static_cast<typename Known::Arguments *>(nullptr)))
        method.part = &Glue<T, M>::part;
    return method;
}

template <class T, class Constructor>
class Declaration;
template <class T, class... P>
class Declaration<T, void(P...)> {
  public:
    Declaration(const char *name, std::vector<Method> methods)
        : type_{name,    sizeof(T),        alignof(T),         signature<P...>, construct, destroy,
                nullptr, typeid(T).name(), std::move(methods), false,           nullptr}
    {
        if constexpr (requires(T &object, const Error &error) { object.failed(error); })
            type_.failed = [](void *instance, const Error &error) { static_cast<T *>(instance)->failed(error); };
        Types::add(&type_);
    }
    ~Declaration() { Types::remove(&type_); }

  private:
    static void construct(void *memory, Reader &from)
    {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            std::tuple<Decoded<P>...> arguments{Codec<Decoded<P>>::read(from)...};
            from.finished();
            new (memory) T(pass<P>(std::get<I>(arguments))...);
        }(std::index_sequence_for<P...>());
    }
    static void destroy(void *instance)
    {
        // All it has is in its heap, which goes at once.
        if constexpr (!requires { typename T::AllInHeap; })
            static_cast<T *>(instance)->~T();
    }
    Type type_;
};

template <class T, auto M, auto Condition>
struct Guarded {
    explicit Guarded(const char *name)
    {
        auto &type = const_cast<Type &>(type_of<T>());
        const_cast<Method *>(type.find(hash32(name)))->ready = [](void *instance) {
            return static_cast<bool>((static_cast<T *>(instance)->*Condition)());
        };
        type.guarded = true;
    }
};

#define COMPOSITE_PARENTHESES ()
#define COMPOSITE_EXPAND(...) COMPOSITE_EXPAND3(COMPOSITE_EXPAND3(COMPOSITE_EXPAND3(COMPOSITE_EXPAND3(__VA_ARGS__))))
#define COMPOSITE_EXPAND3(...) COMPOSITE_EXPAND2(COMPOSITE_EXPAND2(COMPOSITE_EXPAND2(COMPOSITE_EXPAND2(__VA_ARGS__))))
#define COMPOSITE_EXPAND2(...) COMPOSITE_EXPAND1(COMPOSITE_EXPAND1(COMPOSITE_EXPAND1(COMPOSITE_EXPAND1(__VA_ARGS__))))
#define COMPOSITE_EXPAND1(...) __VA_ARGS__
#define COMPOSITE_EACH(T, ...) __VA_OPT__(COMPOSITE_EXPAND(COMPOSITE_EACH_ONE(T, __VA_ARGS__)))
#define COMPOSITE_EACH_ONE(T, m, ...) \
    ::composite::declare_method<T, &T::m>(#m), __VA_OPT__(COMPOSITE_EACH_AGAIN COMPOSITE_PARENTHESES(T, __VA_ARGS__))
#define COMPOSITE_EACH_AGAIN() COMPOSITE_EACH_ONE
#define COMPOSITE_JOIN2(a, b) a##b
#define COMPOSITE_JOIN(a, b) COMPOSITE_JOIN2(a, b)

// COMPOSITE_TYPE(Counter, (int), add, value): Counter can be created from an int, and has two methods that others may call. Once in a
// program, behind the class, in its namespace. Methods with several versions, and templates, cannot be called.
#define COMPOSITE_TYPE(T, constructor, ...)                                                      \
    [[maybe_unused]] inline void(*composite_constructor_of(T *)) constructor { return nullptr; } \
    static const ::composite::Declaration<T, void constructor> COMPOSITE_JOIN(composite_type_,   \
                                                                              __LINE__){#T, {COMPOSITE_EACH(T, __VA_ARGS__)}};

// COMPOSITE_WHEN(Store, take, filled): the method take runs only while filled() is true; its messages wait until then. filled() is asked
// after every method of the object, and must change nothing.
#define COMPOSITE_WHEN(T, method, condition) \
    static const ::composite::Guarded<T, &T::method, &T::condition> COMPOSITE_JOIN(composite_when_, __LINE__){#method};

// ---- calls ------------------------------------------------------------------------------------------------------------

template <class T, class M, class... K>
struct LocalCall final : Call {
    using Known = Signature<M>;
    const Type *type;
    const Method *method;
    typename Known::template In<T> pointer;
    std::tuple<K...> kept;

    template <class... A>
    LocalCall(const Type *type, const Method *method, typename Known::template In<T> pointer, A &&...arguments)
        : type(type), method(method), pointer(pointer), kept(keep<K>(std::forward<A>(arguments))...)
    {
    }
    const Method *method_in(const Object &) override { return method; }
    void execute(Object &target) override
    {
        if (target.type != type)
            throw Error("the object is a " + target.type->name + " and no " + type->name);
        call(*static_cast<T *>(target.instance()), std::index_sequence_for<K...>());
    }

  private:
    // What the lambda needs by name: of a lambda within a lambda GCC's sanitizer mistakes whose member `pointer` is, on some machines.
    template <std::size_t... I>
    void call(T &instance, std::index_sequence<I...>)
    {
        answer_with(answer, [&instance, member = pointer, &arguments = kept]() -> decltype(auto) {
            return (instance.*member)(pass<std::tuple_element_t<I, typename Known::Parameters>>(std::get<I>(arguments))...);
        });
    }
};

template <class T, class M, std::size_t Place, class K>
struct LocalPart final : Call {
    const Method *method;
    typename Signature<M>::template In<T> pointer;
    K kept;
    LocalPart(const Method *method, typename Signature<M>::template In<T> pointer, K value)
        : method(method), pointer(pointer), kept(std::move(value))
    {
    }
    void execute(Object &target) override
    {
        using Known = Signature<M>;
        auto &parts = PartsOf<typename Known::Arguments>::in(target, *method);
        std::get<Place>(parts.queues).push_back(std::move(kept));
        if (!parts.complete())
            return;
        auto arguments = parts.take();
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (static_cast<T *>(target.instance())->*pointer)(
                pass<std::tuple_element_t<I, typename Known::Parameters>>(std::get<I>(arguments))...);
        }(std::make_index_sequence<Known::count>());
    }
};

// An object of any type, whose methods are called by their names: the arguments must have exactly the types of the parameters.
class AnyRef : public Address {
  public:
    AnyRef() = default;
    explicit AnyRef(Address address) : Address(address) {}
    explicit operator bool() const { return number != 0; }

    template <class... A>
    void past(std::string_view method, const A &...arguments) const
    {
        call<void>(nullptr, method, arguments...);
    }
    template <class R = void, class... A>
    Future<R> future(std::string_view method, const A &...arguments) const
    {
        auto state = std::make_shared<AwaitedValue<R>>();
        call<R>(state, method, arguments...);
        return Future<R>(std::move(state));
    }
    template <class R = void, class... A>
    R now(std::string_view method, const A &...arguments) const
    {
        return future<R>(method, arguments...).get();
    }
    // After all messages that were sent to it from here before. Later ones fail.
    void destroy() const
    {
        Wire wire{Kind::destroy};
        wire.object = number;
        Runtime::current().send(rank, wire, Writer());
    }

  protected:
    // With the number of an answer in `wire` when one is expected.
    static void send_call(int rank, Wire &wire, const Writer &writer, const std::shared_ptr<Awaited> &awaited);

  private:
    template <class R, class... A>
    void call(std::shared_ptr<Awaited> awaited, std::string_view method, const A &...arguments) const
    {
        Writer writer;
        (encode<typename OnTheWayOf<A>::Type>(writer, arguments), ...);
        Wire wire{Kind::call};
        wire.object = number;
        wire.method = hash32(method);
        wire.signature = signature<A...>;
        send_call(rank, wire, writer, awaited);
    }
    template <class A>
    struct OnTheWayOf {
        using Type = std::conditional_t<std::is_convertible_v<A, std::string_view>, std::string, std::decay_t<A>>;
    };
};

// An object of type T on some rank. Small, may be copied, compared, and sent in messages; says nothing about whether the object still is.
template <class T>
class Ref : public AnyRef {
  public:
    Ref() = default;
    explicit Ref(Address address) : AnyRef(address) {}

    // Sends the message and goes on. An error comes back to the sender's failed(const Error &), if it has that.
    template <class M, class... A>
    void past(M method, A &&...arguments) const
    {
        call(nullptr, method, std::forward<A>(arguments)...);
    }
    // Waits for the result; other methods of the object that calls may run meanwhile.
    template <class M, class... A>
    typename Signature<M>::Result now(M method, A &&...arguments) const
    {
        return future(method, std::forward<A>(arguments)...).get();
    }
    // Goes on; the result is waited for where it is used.
    template <class M, class... A>
    auto future(M method, A &&...arguments) const
    {
        using R = std::decay_t<typename Signature<M>::Result>;
        auto state = std::make_shared<AwaitedValue<R>>();
        call(state, method, std::forward<A>(arguments)...);
        return Future<R>(std::move(state));
    }
    // The same with memory that cannot be touched until the result is there.
    template <class M, class... A>
    auto trap(M method, A &&...arguments) const
    {
        using R = std::decay_t<typename Signature<M>::Result>;
        auto state = std::make_shared<AwaitedTrap<R>>();
        call(state, method, std::forward<A>(arguments)...);
        return Trap<R>(std::move(state));
    }
    // One parameter of a method that begins when each of them has come, from whomever.
    template <std::size_t Place, class M, class A>
    void part(M method, A &&argument) const
    {
        using Known = Signature<M>;
        using P = std::tuple_element_t<Place, typename Known::Arguments>;
        static_assert(Known::count > 1, "a method that wants several messages has several parameters");
        Runtime &runtime = Runtime::current();
        const typename Known::template In<T> pointer = method;
        const Method &found = method_of(pointer);
        if (found.part == nullptr)
            throw Error(std::string("the parameters of ") + found.name + " cannot come one by one: some are views of a message");
        if (rank == runtime.rank()) {
            post(runtime, new LocalPart<T, M, Place, P>(&found, pointer, P(std::forward<A>(argument))), nullptr);
            return;
        }
        Writer writer;
        encode<P>(writer, argument);
        Wire wire{Kind::part};
        wire.object = number;
        wire.method = found.id;
        wire.signature = signature<P>;
        wire.call = Place;
        runtime.send(rank, wire, writer);
    }

  private:
    template <class Pointer>
    static const Method &method_of(Pointer pointer)
    {
        const Method *found = type_of<T>().find_pointer(&pointer);
        if (found == nullptr)
            throw Error("COMPOSITE_TYPE does not list this method of " + type_of<T>().name);
        return *found;
    }
    void post(Runtime &runtime, Call *call, std::shared_ptr<Awaited> awaited) const
    {
        Worker &here = Worker::current();
        call->object = number;
        call->answer.sender = {rank, here.object != nullptr ? here.object->number : 0};
        call->answer.local = std::move(awaited);
        Worker &worker = runtime.worker_of(number);
        worker.post(call);
        runtime.too_many(worker);
    }
    template <class M, class... A>
    void call(std::shared_ptr<Awaited> awaited, M method, A &&...arguments) const
    {
        using Known = Signature<M>;
        static_assert(Known::count == sizeof...(A), "the method takes another number of arguments");
        Runtime &runtime = Runtime::current();
        const typename Known::template In<T> pointer = method;
        const Method &found = method_of(pointer);
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            if (rank == runtime.rank()) {
                post(runtime,
                     new LocalCall<T, M, typename Kept<std::tuple_element_t<I, typename Known::Parameters>, A>::Type...>(
                         &type_of<T>(), &found, pointer, std::forward<A>(arguments)...),
                     std::move(awaited));
                return;
            }
            Writer writer;
            (encode<std::tuple_element_t<I, typename Known::Parameters>>(writer, arguments), ...);
            Wire wire{Kind::call};
            wire.object = number;
            wire.method = found.id;
            wire.signature = found.signature;
            send_call(rank, wire, writer, awaited);
        }(std::index_sequence_for<A...>());
    }
};

// ---- creating ---------------------------------------------------------------------------------------------------------

void send_create(int rank, const Writer &arguments, std::shared_ptr<Awaited> awaited);

template <class... P>
struct Constructor {
    template <class... A>
    static void send(int rank, std::string_view type, std::shared_ptr<Awaited> awaited, const A &...arguments)
    {
        Writer writer;
        Codec<std::string_view>::write(writer, type);
        writer.value(signature<P...>);
        (encode<P>(writer, arguments), ...);
        send_create(rank, writer, std::move(awaited));
    }
};
template <class T, class... P>
constexpr Constructor<P...> constructor_from(void (*)(P...));

// A future for a new object. Its constructor runs on that rank, as its first method.
template <class T, class... A>
Future<Ref<T>> create_future(int rank, A &&...arguments)
{
    auto state = std::make_shared<AwaitedValue<Ref<T>>>();
    Runtime &runtime = Runtime::current();
    if (rank == runtime.rank() && runtime.single_threaded()) {
        fulfil(*state, [&] {
            Object *made =
                make_object(Worker::current(), type_of<T>(), [&](void *memory) { new (memory) T(std::forward<A>(arguments)...); });
            return Ref<T>(Address{rank, made->number});
        });
    } else {
        using Known = decltype(constructor_from<T>(composite_constructor_of(static_cast<T *>(nullptr))));
        Known::send(rank, type_of<T>().name, state, arguments...);
    }
    return Future<Ref<T>>(std::move(state));
}
template <class T, class... A>
Ref<T> create(int rank, A &&...arguments)
{
    return create_future<T>(rank, std::forward<A>(arguments)...).get();
}
// Of a type that this program knows by its name only. The arguments must have exactly the types that the constructor takes.
template <class... A>
Future<AnyRef> create_future(std::string_view type, int rank, const A &...arguments)
{
    auto state = std::make_shared<AwaitedValue<AnyRef>>();
    Constructor<std::conditional_t<std::is_convertible_v<A, std::string_view>, std::string, std::decay_t<A>>...>::send(rank, type, state,
                                                                                                                       arguments...);
    return Future<AnyRef>(std::move(state));
}
template <class... A>
AnyRef create(std::string_view type, int rank, const A &...arguments)
{
    return create_future(type, rank, arguments...).get();
}

// In a method: the object that runs it, and who sent the message.
Address self_address();
template <class T>
Ref<T> self()
{
    return Ref<T>(self_address());
}
AnyRef sender();

}  // namespace composite
