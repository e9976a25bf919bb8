#include "netmod/core/question.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/escape.h"
#include "netmod/core/state.h"
#include "netmod/report/state.h"

namespace {

int file = -1;
pm_question_page *page = nullptr;

std::atomic_ref<std::uint32_t> shared(std::uint32_t &word)
{
    return std::atomic_ref<std::uint32_t>(word);
}

}  // namespace

extern "C" {

int pm_question_open(int rank, int size)
{
    if (page != nullptr)
        return PM_OK;
    file = memfd_create(PM_QUESTION_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // The page is there from now on, so that touching it cannot fail; what is behind it is only written, which can.
    if (file < 0 || ftruncate(file, PM_QUESTION_TEXT) != 0 || fallocate(file, 0, 0, PM_QUESTION_TEXT) != 0)
        return PM_FAILED;
    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
    void *memory = mmap(nullptr, PM_QUESTION_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return PM_FAILED;
    page = static_cast<pm_question_page *>(memory);
    page->rank = rank;
    page->size = size;
    std::atomic_ref(page->magic).store(PM_QUESTION_MAGIC, std::memory_order_release);  // [G1] pairs with [G2] in inspector/asking.cc
    return PM_OK;
}

void pm_question_phase(int phase)
{
    if (page != nullptr)
        shared(page->phase).store(static_cast<std::uint32_t>(phase), std::memory_order_release);
}

uint32_t pm_question_asked(void)
{
    if (page == nullptr)
        return 0;
    std::uint32_t asked = shared(page->asked).load(std::memory_order_acquire);
    return asked == shared(page->answered).load(std::memory_order_relaxed) ? 0 : asked;
}

void pm_question_answer(uint32_t question, const char *text, size_t size)
{
    if (page == nullptr)
        return;
    shared(page->version).fetch_add(1, std::memory_order_acq_rel);  // [G3] pairs with [G4] in inspector/asking.cc
    ssize_t written = pwrite(file, text, size, PM_QUESTION_TEXT);
    shared(page->length).store(written < 0 ? 0 : static_cast<std::uint32_t>(written), std::memory_order_relaxed);
    shared(page->version).fetch_add(1, std::memory_order_release);
    shared(page->answered).store(question, std::memory_order_release);
}

char *pm_state_in_words(const char *text, size_t size)
{
    auto state = pm::parse_state({text, size});
    return strdup((state ? pm::state_in_words(*state) : std::string("(no answer)\n")).c_str());
}

void pm_path_in_words(const pm_peer *peer, char *text, size_t size)
{
    const pm::Path &path = *peer->used;
    std::snprintf(text, size, "%s%s%s", path.channel->name, path.network.empty() ? "" : " ", pm::plain_text(path.network).c_str());
}

}  // extern "C"
