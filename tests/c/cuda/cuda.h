/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake's in the place of CUDA's own header. */
#include "../fake_cuda.h"
