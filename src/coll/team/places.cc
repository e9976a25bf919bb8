#include "coll/team/places.h"

#include <unordered_map>

void pm_places_of(pm_places *places, int *memory, int count, int self, int (*host)(void *context, int rank), void *context)
{
    std::unordered_map<int, int> place_of;
    auto host_of = [&](int rank) { return host != nullptr ? host(context, rank) : rank; };
    const int ours = host_of(self);
    *places = {0, memory, 0, 0, memory + count};
    for (int rank = 0; rank < count; ++rank) {
        const int where = host_of(rank);
        if (place_of.emplace(where, places->hosts).second)
            places->first[places->hosts++] = rank;
        if (where == ours && rank != self)
            places->mate[places->mates++] = rank;
    }
    places->ours = place_of[ours];
}
