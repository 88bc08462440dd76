// How far a kernel's result may be from what it should be: by backend and dtype, in one table.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace snug {

// Fails where |got - want| > factor * relative * (|want| + rms(want)), naming the first such
// element of `what`. `factor`: 1 where `want` is exact; 2 where it was rounded to the dtype too,
// perhaps to the other neighbour.
void expect_close(const std::vector<double>& got, const std::vector<double>& want, Backend backend,
                  Dtype dtype, const std::string& what, double factor = 1);

// Fails where rms(got - want) > factor * relative * rms(want): for results of which single elements
// may be further off.
void expect_close_overall(const std::vector<double>& got, const std::vector<double>& want,
                          Backend backend, Dtype dtype, const std::string& what, double factor = 2);

double rms_of(const std::vector<double>& v);

}  // namespace snug
