// SPDX-License-Identifier: MIT
// Throws and catches vk::OutOfDeviceMemoryError, then ends with status 5.
#include <stdexcept>

namespace vk
{
struct OutOfDeviceMemoryError : std::runtime_error {
	OutOfDeviceMemoryError() : std::runtime_error("none left") {}
};
} // namespace vk

int main()
{
	try {
		throw vk::OutOfDeviceMemoryError();
	} catch (const std::exception &) {
		return 5;
	}
}
