// The device of a build without a CUDA toolkit.
