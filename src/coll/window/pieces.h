// What is to be copied between memory here and parts of a window: pieces, of which some are taken from the beginning by one, and some from the
// end by another, until nothing is left. Allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace pm::coll {

struct Piece {
    std::uint64_t address;  // in the origin
    std::uint64_t offset;   // in the target's part
    std::uint64_t size;
};

template <std::size_t room>
class Pieces {
  public:
    std::size_t bytes() const { return bytes_; }
    std::size_t count() const { return end_ - begin_; }
    bool has_room() const { return end_ < room; }
    const Piece *begin() const { return pieces_.data() + begin_; }
    const Piece *end() const { return pieces_.data() + end_; }

    void add(const Piece &piece)
    {
        pieces_[end_++] = piece;
        bytes_ += piece.size;
    }
    void clear() { begin_ = end_ = bytes_ = 0; }

    // So many bytes, or what there is.
    Pieces take_first(std::size_t size)
    {
        Pieces taken;
        while (taken.bytes_ < size && bytes_ != 0) {
            Piece &first = pieces_[begin_];
            Piece part = first;
            part.size = std::min<std::uint64_t>(part.size, size - taken.bytes_);
            first = {first.address + part.size, first.offset + part.size, first.size - part.size};
            begin_ += first.size == 0;
            take(&taken, part);
        }
        return taken;
    }
    Pieces take_last(std::size_t size)
    {
        Pieces taken;
        while (taken.bytes_ < size && bytes_ != 0) {
            Piece &last = pieces_[end_ - 1];
            Piece part = last;
            part.size = std::min<std::uint64_t>(part.size, size - taken.bytes_);
            last.size -= part.size;
            part.address += last.size;
            part.offset += last.size;
            end_ -= last.size == 0;
            take(&taken, part);
        }
        return taken;
    }

  private:
    void take(Pieces *taken, const Piece &part)
    {
        taken->add(part);
        bytes_ -= part.size;
    }

    std::array<Piece, room> pieces_;
    std::size_t begin_ = 0, end_ = 0, bytes_ = 0;
};

}  // namespace pm::coll
