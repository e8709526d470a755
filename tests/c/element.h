/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of the typed atomics on plain memory: the effect of an operation on elements. This
 * file has no locking and no transport.
 */
#ifndef ELEMENT_H
#define ELEMENT_H

#include <stdbool.h>
#include <string.h>

#include "btl_plugin.h"

/* Bytes of an element; 0 for an unknown datatype. */
static inline size_t element_size(uint32_t datatype)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return datatype < sizeof sizes ? sizes[datatype] : 0;
}

static inline bool element_is_float(uint32_t datatype)
{
    return datatype == BTL_DATATYPE_FLOAT || datatype == BTL_DATATYPE_DOUBLE;
}

/* Whether `op` is defined on `datatype` in `kind`; all three codes are known. */
static inline bool element_serves(uint32_t datatype, uint32_t op, uint32_t kind)
{
    if (kind == BTL_ATOMIC_KIND_COMPARE)
        return op == BTL_ATOMIC_OP_CSWAP;
    switch (op) {
    case BTL_ATOMIC_OP_CSWAP:
        return false;
    case BTL_ATOMIC_OP_READ:
        return kind == BTL_ATOMIC_KIND_FETCH;
    case BTL_ATOMIC_OP_BOR:
    case BTL_ATOMIC_OP_BAND:
    case BTL_ATOMIC_OP_BXOR:
        return !element_is_float(datatype);
    default:
        return true;
    }
}

/* The operations of every arithmetic type. Signed sums and products wrap: they are computed in
 * `wide`, which is unsigned for integers, because unsigned overflow is defined. */
#define ELEMENT_ARITHMETIC(type, wide)                              \
    case BTL_ATOMIC_OP_MIN: a = b < a ? b : a; break;               \
    case BTL_ATOMIC_OP_MAX: a = b > a ? b : a; break;               \
    case BTL_ATOMIC_OP_SUM: a = (type)((wide)a + (wide)b); break;   \
    case BTL_ATOMIC_OP_PROD: a = (type)((wide)a * (wide)b); break;  \
    case BTL_ATOMIC_OP_LOR: a = (type)(a != 0 || b != 0); break;    \
    case BTL_ATOMIC_OP_LAND: a = (type)(a != 0 && b != 0); break;   \
    case BTL_ATOMIC_OP_LXOR: a = (type)((a != 0) != (b != 0)); break; \
    case BTL_ATOMIC_OP_WRITE: a = b; break;                         \
    case BTL_ATOMIC_OP_CSWAP: a = a == c ? b : a; break;

#define ELEMENT_BITWISE(type)                              \
    case BTL_ATOMIC_OP_BOR: a = (type)(a | b); break;      \
    case BTL_ATOMIC_OP_BAND: a = (type)(a & b); break;     \
    case BTL_ATOMIC_OP_BXOR: a = (type)(a ^ b); break;

#define ELEMENT_CASE(code, type, ...)            \
    case code: {                                 \
        type a, b = 0, c = 0;                    \
        memcpy(&a, target, sizeof a);            \
        if (operand != NULL)                     \
            memcpy(&b, operand, sizeof b);       \
        if (compare != NULL)                     \
            memcpy(&c, compare, sizeof c);       \
        switch (op) {                            \
            __VA_ARGS__                          \
        default: break; /* READ leaves the element unchanged */     \
        }                                        \
        memcpy(target, &a, sizeof a);            \
    } break;

#define ELEMENT_INTEGER(code, type) \
    ELEMENT_CASE(code, type, ELEMENT_ARITHMETIC(type, uint64_t) ELEMENT_BITWISE(type))

/* Applies `op` to the element at `target`, which may have any alignment. `operand` may be NULL for
 * READ, `compare` for everything but CSWAP. The caller has called element_serves. */
static inline void element_apply(uint32_t datatype, uint32_t op, void *target, const void *operand,
                                 const void *compare)
{
    switch (datatype) {
        ELEMENT_INTEGER(BTL_DATATYPE_INT8, int8_t)
        ELEMENT_INTEGER(BTL_DATATYPE_UINT8, uint8_t)
        ELEMENT_INTEGER(BTL_DATATYPE_INT16, int16_t)
        ELEMENT_INTEGER(BTL_DATATYPE_UINT16, uint16_t)
        ELEMENT_INTEGER(BTL_DATATYPE_INT32, int32_t)
        ELEMENT_INTEGER(BTL_DATATYPE_UINT32, uint32_t)
        ELEMENT_INTEGER(BTL_DATATYPE_INT64, int64_t)
        ELEMENT_INTEGER(BTL_DATATYPE_UINT64, uint64_t)
        ELEMENT_CASE(BTL_DATATYPE_FLOAT, float, ELEMENT_ARITHMETIC(float, float))
        ELEMENT_CASE(BTL_DATATYPE_DOUBLE, double, ELEMENT_ARITHMETIC(double, double))
    default: break;
    }
}

/* The typed operation of an atomic_op code, or -1 for an unknown code. */
static inline int32_t element_op_of_word(uint32_t op)
{
    switch (op) {
    case BTL_OP_ADD: return BTL_ATOMIC_OP_SUM;
    case BTL_OP_AND: return BTL_ATOMIC_OP_BAND;
    case BTL_OP_OR: return BTL_ATOMIC_OP_BOR;
    case BTL_OP_XOR: return BTL_ATOMIC_OP_BXOR;
    case BTL_OP_LAND: return BTL_ATOMIC_OP_LAND;
    case BTL_OP_LOR: return BTL_ATOMIC_OP_LOR;
    case BTL_OP_LXOR: return BTL_ATOMIC_OP_LXOR;
    case BTL_OP_SWAP: return BTL_ATOMIC_OP_WRITE;
    case BTL_OP_MIN: return BTL_ATOMIC_OP_MIN;
    case BTL_OP_MAX: return BTL_ATOMIC_OP_MAX;
    default: return -1;
    }
}

/* The datatype of the word atomics with the given flags; minimum and maximum are
 * signed. */
static inline uint32_t element_type_of_word(uint32_t flags)
{
    if (flags & BTL_OP_FLAG_FLOAT)
        return flags & BTL_OP_FLAG_WORD_32 ? BTL_DATATYPE_FLOAT : BTL_DATATYPE_DOUBLE;
    return flags & BTL_OP_FLAG_WORD_32 ? BTL_DATATYPE_INT32 : BTL_DATATYPE_INT64;
}

#endif
