// The commands of mpicomposite. Each takes the words behind its name and answers the exit status.
#pragma once

#include <span>
#include <string>

namespace pm::inspector {

enum : int { success = 0, failure = 1, misuse = 2 };

using Words = std::span<char *const>;

// Does not come back when it succeeds, unless the table goes to a descriptor: the process becomes the command that it was given.
int routes(Words words);
int devices(Words words);
int doctor(Words words);
int top(Words words);
int why(Words words);
int collectives(Words words);

// Says what is wrong, and where help is.
int refuse(const std::string &sentence);

}  // namespace pm::inspector
