// SPDX-License-Identifier: MIT
// Throws and catches vk::OutOfDeviceMemoryError, then ends with status 5; later with an argument.
#include <stdexcept>
#include <unistd.h>

namespace vk
{
struct OutOfDeviceMemoryError : std::runtime_error {
	OutOfDeviceMemoryError() : std::runtime_error("none left") {}
};
} // namespace vk

extern "C" __attribute__((noinline)) void gives_up()
{
	throw vk::OutOfDeviceMemoryError();
}

int main(int argc, char **)
{
	try {
		gives_up();
	} catch (const std::exception &) {
		if (argc > 1)
			usleep(500000);
		return 5;
	}
}
