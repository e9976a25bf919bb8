/* Numbers of what others speak of in their messages: the place in a table, and how often that was used, so that what is gone is not taken for
 * what came to its place. 0 is no number. A table is all zero at first. No lock; for C and C++. */
#ifndef PM_NUMBERS_H_INCLUDED
#define PM_NUMBERS_H_INCLUDED

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct pm_numbered {
    void *it;                   /* NULL: free */
    uint32_t uses;
    uint32_t next;              /* of the free ones; pm_numbers.room: none */
} pm_numbered;

typedef struct pm_numbers {
    pm_numbered *places;
    uint32_t room, free, used;
} pm_numbers;

/* 0 when there is no memory. */
static inline uint64_t pm_number_give(pm_numbers *numbers)
{
    uint32_t place;

    if (numbers->free == numbers->room) {
        uint32_t room = numbers->room != 0 ? 2 * numbers->room : 16;
        pm_numbered *larger = (pm_numbered *) realloc(numbers->places, room * sizeof *larger);
        if (larger == NULL)
            return 0;
        memset(larger + numbers->room, 0, (room - numbers->room) * sizeof *larger);
        for (place = numbers->room; place < room; place++)
            larger[place].next = place + 1;
        numbers->places = larger;
        numbers->room = room;
    }
    place = numbers->free;
    numbers->free = numbers->places[place].next;
    numbers->used++;
    return (uint64_t) ++numbers->places[place].uses << 32 | place;
}

/* Whose it is, of one that was given: not NULL. */
static inline void pm_number_set(pm_numbers *numbers, uint64_t number, void *it)
{
    numbers->places[(uint32_t) number].it = it;
}

/* NULL: there is none with this number, or not any more. */
static inline void *pm_number_find(const pm_numbers *numbers, uint64_t number)
{
    uint32_t place = (uint32_t) number;

    return place < numbers->room && numbers->places[place].uses == (uint32_t) (number >> 32) ? numbers->places[place].it : NULL;
}

/* One that was given. */
static inline void pm_number_forget(pm_numbers *numbers, uint64_t number)
{
    pm_numbered *place = &numbers->places[(uint32_t) number];

    place->it = NULL;
    place->next = numbers->free;
    numbers->free = (uint32_t) number;
    numbers->used--;
}

static inline void pm_numbers_end(pm_numbers *numbers)
{
    free(numbers->places);
    numbers->places = NULL;
    numbers->room = numbers->free = numbers->used = 0;
}

#endif
