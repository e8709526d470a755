/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of the fake, in the place of CUDA's own header. */
#include "../fake_cuda.h"
