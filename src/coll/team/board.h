// What the ranks of a team see together: a seat for each, with notes that all others read. Knows no MPI, no device and no clock.
//
// What a team does is a sequence of steps, the same at every rank. A rank enters a step once, with something to read or with nothing, and
// looks for what others entered it with. Who has entered a step has finished all before it, but for the last few, of which it may enter some
// at once (`ahead`); so a place of a rank is free again when all have entered a step that is so much later. Short data lies behind the number of its step, in the same cache line or the next ones; longer
// data on a card, or on a page, of which there are fewer; what is longer still stays where it is, and a card says where that is. There are
// many notes, so that who broadcasts short data runs far ahead: where ranks share cores, each of them then does much in one turn.
//
// What goes from one rank's memory to another's is claimed before it is read: by who reads it, or by who will not have it read any more.
//
// The atomic type is a parameter so that tests run this very code under a seeded scheduler, and how many places there are, so that they see
// all of them taken.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/fence.h"
#include "base/tuning.h"
#include "coll/team/team.h"

namespace pm::coll {

template <template <class> class Atomic, std::uint64_t Notes = 64, std::uint64_t Cards = 32>
class TeamBoard {
  public:
    static constexpr std::uint64_t notes = Notes, cards = Cards;  // of a rank, in turn; of pages as many as is said
    static constexpr std::int32_t nobody = -1, everybody = INT32_MAX;
    static constexpr std::size_t pages_limit = std::max(PM_TEAM_PAGES, PM_TEAM_PAGES_CROWD);

    struct alignas(64) Note {
        Atomic<std::uint64_t> step;
        std::uint64_t size;  // of what it was entered with, or PM_TEAM_ELSEWHERE; in the highest byte which collective that was
        std::byte data[PM_TEAM_NOTE];
    };
    struct alignas(64) Seat {
        Atomic<std::uint64_t> finished;  // of steps that are entered before those before them are finished
        Atomic<std::int32_t> awaits;     // whom this rank sleeps for, and one more; or everybody
        Atomic<std::uint32_t> joined;    // it has heard of the board
        Atomic<std::uint32_t> left;      // it does not look at the board any more
        Atomic<std::uint32_t> gave_up;
        // Which of its cards have memory, a bit for each, and how much of each page, for who has the seat in the next team.
        Atomic<std::uint64_t> backed_cards;
        Atomic<std::uint8_t> backed_pages[pages_limit];
    };
    struct alignas(64) Head {
        Atomic<std::uint32_t> sleepers;
        Atomic<std::uint32_t> backed_notes;  // all of them have memory
    };

    static std::size_t size_of(int ranks, int pages)
    {
        return pages_at(ranks) + static_cast<std::size_t>(ranks) * static_cast<std::size_t>(pages) * PM_TEAM_PAGE;
    }

    // From its beginning, without notes and with them. Cards and pages are behind that, and a rank's are written by itself only.
    static std::size_t size_of_seats(int ranks) { return notes_at(ranks); }
    static std::size_t size_of_notes(int ranks) { return cards_at(ranks); }

    // By whoever makes it, before others know of it. Memory that is zero needs no notes to be laid out.
    static void lay_out_seats(void *memory, int ranks)
    {
        const TeamBoard board(memory, 0, ranks, 0, 0);
        new (&board.head()) Head{};
        for (int rank = 0; rank < ranks; ++rank) {
            new (&board.seat(rank)) Seat{};
            for (int other = 0; other < ranks; ++other)
                new (&board.claim_of(rank, other)) Atomic<std::uint64_t>{};
        }
    }
    static void lay_out(void *memory, int ranks)
    {
        const TeamBoard board(memory, 0, ranks, 0, 0);
        lay_out_seats(memory, ranks);
        for (int rank = 0; rank < ranks; ++rank)
            for (std::uint64_t i = 0; i < notes; ++i)
                new (&board.note_of(rank, i).step) Atomic<std::uint64_t>{};
    }
    // For another team, when all have left: it begins behind a step that nobody has come to, so that notes and claims need not be touched. What has
    // memory keeps it.
    static void lay_out_again(void *memory, int ranks, std::uint64_t begin)
    {
        const TeamBoard board(memory, 0, ranks, 0, 0);
        board.head().sleepers.store(0, std::memory_order_relaxed);
        for (int rank = 0; rank < ranks; ++rank) {
            Seat &seat = board.seat(rank);
            seat.finished.store(begin, std::memory_order_relaxed);
            seat.awaits.store(0, std::memory_order_relaxed);
            seat.joined.store(0, std::memory_order_relaxed);
            seat.left.store(0, std::memory_order_relaxed);
            seat.gave_up.store(0, std::memory_order_relaxed);
        }
    }
    // What has memory, whoever asked for it: relaxed, as who sees it late asks once more, and a seat's is its owner's.
    bool has_backed_notes() const { return head().backed_notes.load(std::memory_order_relaxed) != 0; }
    void note_backed_notes() { head().backed_notes.store(1, std::memory_order_relaxed); }
    std::uint64_t backed_cards() const { return seat(rank_).backed_cards.load(std::memory_order_relaxed); }
    void note_backed_cards(std::uint64_t bits) { seat(rank_).backed_cards.store(bits, std::memory_order_relaxed); }
    std::uint8_t backed_of_page(unsigned page) const { return seat(rank_).backed_pages[page].load(std::memory_order_relaxed); }
    void note_backed_page(unsigned page, std::uint8_t units) { seat(rank_).backed_pages[page].store(units, std::memory_order_relaxed); }
    // Nobody is as many steps before another one as there are notes.
    std::uint64_t behind_all() const { return step_ + 2 * notes; }
    static void take_down(void *memory, int ranks)
    {
        const TeamBoard board(memory, 0, ranks, 0, 0);
        for (int rank = 0; rank < ranks; ++rank) {
            board.seat(rank).~Seat();
            for (std::uint64_t i = 0; i < notes; ++i)
                std::destroy_at(&board.note_of(rank, i).step);
            for (int other = 0; other < ranks; ++other)
                std::destroy_at(&board.claim_of(rank, other));
        }
        board.head().~Head();
    }
    // At most so many steps are entered before the first of them is finished; of each kind of places there must be more. The first one is that
    // after `begin`.
    TeamBoard(void *memory, int rank, int ranks, int pages, int ahead, std::uint64_t begin = 0)
        : memory_(static_cast<std::byte *>(memory)), rank_(rank), ranks_(ranks), pages_(static_cast<std::uint64_t>(pages)),
          ahead_(static_cast<std::uint64_t>(ahead)), step_(begin), looked_at_(begin), all_entered_(begin), all_finished_(begin)
    {
    }

    std::uint64_t step() const { return step_; }
    int rank() const { return rank_; }
    int ranks() const { return ranks_; }

    // Whether the next step can be entered with so many bytes. False: somebody is far behind.
    bool has_room(std::size_t size)
    {
        const std::uint64_t room = room_for(size);
        // Who is asked for more than is needed need not be asked at every step.
        return all_entered_ + room >= step_ + 1 || all_have_entered(before_next(room / 2)) || all_have_entered(before_next(room));
    }
    // Half of it is free. Who waits for room where ranks share cores waits for so much, to be worth a turn.
    bool has_much_room(std::size_t size) { return all_have_entered(before_next(much(size))); }
    // As has_room(), where steps are entered before those before them are finished.
    bool has_room_behind(std::size_t size)
    {
        const std::uint64_t places = places_for(size), needed = step_ + 1 > places ? step_ + 1 - places : 0;
        for (int rank = 0; all_finished_ < needed && rank < ranks_; ++rank)
            if (!has_finished(rank, needed))
                return false;
        all_finished_ = std::max(all_finished_, needed);
        return true;
    }
    void finish(std::uint64_t step)
    {
        // [Y7] we do not read what others entered up to it with any more; pairs with [Y8].
        seat(rank_).finished.store(step, std::memory_order_release);
    }
    bool has_finished(int rank, std::uint64_t step) const
    {
        // [Y8] its places may be written again; pairs with [Y7].
        return seat(rank).finished.load(std::memory_order_acquire) >= step;
    }

    // Where there is no room, or not much: one who has not come far enough; nobody when there is by now.
    int last(std::size_t size, bool half) const
    {
        return first_behind(before_next(half ? much(size) : room_for(size)));
    }
    // Where a rank has what it enters a step with.
    std::byte *place_of(int rank, std::uint64_t step, std::uint64_t size) const
    {
        const auto seat = static_cast<std::uint64_t>(rank);
        if (size <= PM_TEAM_NOTE)
            return note_of(rank, step).data;
        if (is_card(size))
            return memory_ + cards_at(ranks_) + (seat * cards + step % cards) * PM_TEAM_CARD;
        return memory_ + pages_at(ranks_) + (seat * pages_ + step % pages_) * PM_TEAM_PAGE;
    }
    std::byte *place(std::size_t size) { return place_of(rank_, step_ + 1, size); }
    // Of this rank's cards, or pages, the one that the next step takes. Only of what is longer than a note.
    unsigned number_of_place(std::size_t size) const { return static_cast<unsigned>((step_ + 1) % places_for(size)); }
    static bool is_card(std::uint64_t size) { return size <= PM_TEAM_CARD || size == PM_TEAM_ELSEWHERE; }
    // When there is room, and what is to be read has been written.
    void enter(std::uint64_t size, std::uint8_t collective = 0)
    {
        Note &note = note_of(rank_, ++step_);
        note.size = size | std::uint64_t{collective} << 56;
        // [Y1] what we enter with, and that we have finished all before; pairs with [Y2].
        note.step.store(step_, std::memory_order_release);
        looked_at_ = step_;
    }
    bool has_entered(int rank, std::uint64_t step) const
    {
        // [Y2] sees what a rank entered with; pairs with [Y1].
        return note_of(rank, step).step.load(std::memory_order_acquire) >= step;
    }
    // Of an earlier step, until the next one is entered: the following three.
    void look_at(std::uint64_t step) { looked_at_ = step; }
    bool is_here(int rank) const { return has_entered(rank, looked_at_); }
    // All have been seen here.
    void all_are_here() { all_entered_ = std::max(all_entered_, step_); }
    std::uint64_t size_said(int rank) const { return note_of(rank, looked_at_).size & PM_TEAM_ELSEWHERE; }
    std::uint8_t collective_of(int rank) const { return static_cast<std::uint8_t>(note_of(rank, looked_at_).size >> 56); }
    const std::byte *said(int rank) const { return place_of(rank, looked_at_, size_said(rank)); }

    // In the step that is looked at, of what goes from a rank to another one: whether it is ours to copy, or to withdraw; it has been
    // copied; whether it has been.
    bool claim(int from, int to)
    {
        std::uint64_t last = claim_of(from, to).load(std::memory_order_relaxed);
        return last < 2 * looked_at_ && claim_of(from, to).compare_exchange_strong(last, 2 * looked_at_, std::memory_order_relaxed,
                                                                                std::memory_order_relaxed);
    }
    void has_copied(int from, int to)
    {
        // [Y9] what was copied is there, and nobody touches it any more; pairs with [Y10].
        claim_of(from, to).store(2 * looked_at_ + 1, std::memory_order_release);
    }
    bool is_copied(int from, int to) const
    {
        // [Y10] pairs with [Y9].
        return claim_of(from, to).load(std::memory_order_acquire) > 2 * looked_at_;
    }

    // Before a rank sleeps until another one, or anybody, comes; then it looks once more.
    void sleeps_for(std::int32_t rank)
    {
        seat(rank_).awaits.store(rank == everybody ? everybody : rank + 1, std::memory_order_relaxed);
        head().sleepers.fetch_add(1, std::memory_order_relaxed);
        // [Y3] either who enters sees that we sleep, or we see that it has entered; pairs with [Y4].
        Fence<Atomic>::place(std::memory_order_seq_cst);
    }
    void is_awake()
    {
        seat(rank_).awaits.store(0, std::memory_order_relaxed);
        head().sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
    // After a step was entered: those who sleep for us.
    template <class Wake>
    void wake(Wake wake)
    {
        // [Y4] pairs with [Y3].
        Fence<Atomic>::place(std::memory_order_seq_cst);
        if (head().sleepers.load(std::memory_order_relaxed) == 0) [[likely]]
            return;
        for (int rank = 0; rank < ranks_; ++rank)
            if (awaits_us(rank))
                wake(rank);
    }
    // After something that only this one waits for.
    template <class Wake>
    void wake_one(int rank, Wake wake)
    {
        // [Y4] pairs with [Y3].
        Fence<Atomic>::place(std::memory_order_seq_cst);
        if (awaits_us(rank))
            wake(rank);
    }

    void join() { seat(rank_).joined.store(1, std::memory_order_release); }
    bool has_joined(int rank) const { return seat(rank).joined.load(std::memory_order_acquire) != 0; }
    // It has left, or given up: it enters nothing any more.
    bool will_not_come(int rank) const
    {
        return (seat(rank).left.load(std::memory_order_acquire) | seat(rank).gave_up.load(std::memory_order_acquire)) != 0;
    }
    bool gave_up(int rank) const { return seat(rank).gave_up.load(std::memory_order_acquire) != 0; }
    void give_up() { seat(rank_).gave_up.store(1, std::memory_order_release); }
    void leave()
    {
        // [Y5] our last look at the board; pairs with [Y6].
        seat(rank_).left.store(1, std::memory_order_release);
    }
    // Who has ended without leaving looks no more, either.
    template <class HasEnded>
    bool all_have_left(HasEnded has_ended) const
    {
        for (int rank = 0; rank < ranks_; ++rank)
            // [Y6] nobody looks any more; pairs with [Y5].
            if (seat(rank).left.load(std::memory_order_acquire) == 0 && !has_ended(rank))
                return false;
        return true;
    }

  private:
    static std::size_t claims_at(int ranks) { return sizeof(Head) + static_cast<std::size_t>(ranks) * sizeof(Seat); }
    static std::size_t notes_at(int ranks)
    {
        const auto squared = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
        return (claims_at(ranks) + squared * sizeof(Atomic<std::uint64_t>) + alignof(Note) - 1) / alignof(Note) * alignof(Note);
    }
    static std::size_t cards_at(int ranks) { return notes_at(ranks) + static_cast<std::size_t>(ranks) * notes * sizeof(Note); }
    static std::size_t pages_at(int ranks)
    {
        const std::size_t end = cards_at(ranks) + static_cast<std::size_t>(ranks) * cards * PM_TEAM_CARD;
        return (end + 4095) / 4096 * 4096;
    }
    std::uint64_t places_for(std::uint64_t size) const
    {
        return size <= PM_TEAM_NOTE ? notes : is_card(size) ? cards : pages_;
    }
    Head &head() const { return *reinterpret_cast<Head *>(memory_); }
    Seat &seat(int rank) const { return reinterpret_cast<Seat *>(memory_ + sizeof(Head))[rank]; }
    Note &note_of(int rank, std::uint64_t step) const
    {
        return reinterpret_cast<Note *>(memory_ + notes_at(ranks_))[static_cast<std::uint64_t>(rank) * notes + step % notes];
    }
    Atomic<std::uint64_t> &claim_of(int from, int to) const
    {
        return reinterpret_cast<Atomic<std::uint64_t> *>(memory_ + claims_at(ranks_))[from * ranks_ + to];
    }
    bool awaits_us(int rank) const
    {
        const std::int32_t awaits = seat(rank).awaits.load(std::memory_order_relaxed);
        return rank != rank_ && (awaits == rank_ + 1 || awaits == everybody);
    }
    // How many steps a rank may be before the last one.
    std::uint64_t room_for(std::size_t size) const { return places_for(size) - ahead_; }
    std::uint64_t much(std::size_t size) const { return std::max(room_for(size) / 2, std::uint64_t{1}); }
    std::uint64_t before_next(std::uint64_t steps) const { return step_ + 1 > steps ? step_ + 1 - steps : 0; }
    int first_behind(std::uint64_t step) const
    {
        for (int rank = 0; rank < ranks_; ++rank)
            if (rank != rank_ && !has_entered(rank, step))
                return rank;
        return nobody;
    }
    bool all_have_entered(std::uint64_t step)
    {
        if (all_entered_ < step && first_behind(step) != nobody)
            return false;
        all_entered_ = std::max(all_entered_, step);
        return true;
    }

    std::byte *memory_;
    int rank_, ranks_;
    std::uint64_t pages_, ahead_;
    std::uint64_t step_;             // the last one that we have entered
    std::uint64_t looked_at_;
    std::uint64_t all_entered_, all_finished_;  // as far as we know
};

}  // namespace pm::coll
