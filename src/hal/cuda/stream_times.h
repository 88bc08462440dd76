// Times of work on a GPU's stream.
#pragma once

#include <functional>
#include <vector>

#include "hal/device.h"

namespace snug {

// Milliseconds on the device of each of `count` pieces of work. They are enqueued one after the
// other and waited for once, so that the device never idles between them.
std::vector<double> stream_times_ms(Device& device, size_t count,
                                    const std::function<void(size_t)>& enqueue);

// Bytes read plus bytes written per second by a large copy inside the device's memory. Allocates
// for it and frees again; throws does_not_fit where they do not fit.
double copy_bytes_per_s(Device& device);

}  // namespace snug
