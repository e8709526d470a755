/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of host.c that does every atomic the module offers, against the model of element.h.
 */

/* ---- Word atomics --------------------------------------------------------------------------- */

static const struct {
    uint32_t op, flag;
    const char *name;
} word_ops[] = {
    {BTL_OP_ADD, BTL_ATOMIC_ADD, "add"},    {BTL_OP_AND, BTL_ATOMIC_AND, "and"},
    {BTL_OP_OR, BTL_ATOMIC_OR, "or"},       {BTL_OP_XOR, BTL_ATOMIC_XOR, "xor"},
    {BTL_OP_LAND, BTL_ATOMIC_LAND, "land"}, {BTL_OP_LOR, BTL_ATOMIC_LOR, "lor"},
    {BTL_OP_LXOR, BTL_ATOMIC_LXOR, "lxor"}, {BTL_OP_SWAP, BTL_ATOMIC_SWAP, "swap"},
    {BTL_OP_MIN, BTL_ATOMIC_MIN, "min"},    {BTL_OP_MAX, BTL_ATOMIC_MAX, "max"},
};

/* One operation on a word with old value `old`, as update and as fetch. */
static void check_word(btl_module *module, const struct target *target, size_t which, uint64_t old,
                       uint64_t operand, uint32_t flags)
{
    const btl_module_vtable *vtable = module->vtable;
    uint32_t has = module->attributes->atomic_flags, datatype = element_type_of_word(flags);
    size_t size = element_size(datatype);
    bool served = (has & word_ops[which].flag) &&
                  (!(flags & BTL_OP_FLAG_WORD_32) || (has & BTL_ATOMIC_WORD_32));
    for (int fetch = 0; fetch < 2; fetch++) {
        struct pending pending = {0};
        uint64_t wanted = old, *words = (uint64_t *)scratch;
        btl_status status;
        words[0] = old;
        expect(put(module, target, words, 16, 8) == BTL_SUCCESS, "put of a word");
        words[1] = 0;
        if (fetch)
            ISSUE(status,
                  vtable->atomic_fop(module, target->endpoint, &words[1], target->address + 16,
                                     scratch_handle, target->handle, word_ops[which].op, operand,
                                     flags, BTL_NO_ORDER, landed, &pending, NULL));
        else
            ISSUE(status, vtable->atomic_op(module, target->endpoint, target->address + 16,
                                            target->handle, word_ops[which].op, operand, flags,
                                            BTL_NO_ORDER, landed, &pending, NULL));
        status = finish(&pending, status);
        if (!served) {
            expect(status == BTL_NOT_SUPPORTED, "%s is not offered, and returned %d",
                   word_ops[which].name, (int)status);
            continue;
        }
        expect(status == BTL_SUCCESS, "%s %s on %s returned %d", fetch ? "fetch" : "update",
               word_ops[which].name, target->name, (int)status);
        element_apply(datatype, (uint32_t)element_op_of_word(word_ops[which].op), &wanted, &operand,
                      NULL);
        expect(!fetch || memcmp(&words[1], &old, size) == 0, "%s fetches the old word from %s",
               word_ops[which].name, target->name);
        expect(get(module, target, &words[2], 16, 8) == BTL_SUCCESS && words[2] == wanted,
               "%s of %zu bits on %s: wanted %#llx, found %#llx", word_ops[which].name, size * 8,
               target->name, (unsigned long long)wanted, (unsigned long long)words[2]);
    }
}

static void check_cswap(btl_module *module, const struct target *target, uint32_t flags)
{
    bool offered = module->attributes->atomic_flags & BTL_ATOMIC_CSWAP;
    for (int equal = 0; equal < 2; equal++) {
        struct pending pending = {0};
        uint64_t *words = (uint64_t *)scratch, wanted;
        btl_status status;
        words[0] = UINT64_C(0x1111111122222222);
        wanted = !equal                        ? words[0]
                 : flags & BTL_OP_FLAG_WORD_32 ? UINT64_C(0x1111111100000007)
                                               : 7;
        words[1] = 0;
        expect(put(module, target, words, 24, 8) == BTL_SUCCESS, "put of a word");
        ISSUE(status,
              module->vtable->atomic_cswap(
                  module, target->endpoint, &words[1], target->address + 24, scratch_handle,
                  target->handle, flags ? UINT32_C(0x22222222) + !equal : words[0] + !equal, 7,
                  flags, BTL_NO_ORDER, landed, &pending, NULL));
        status = finish(&pending, status);
        if (!offered || (flags && !(module->attributes->atomic_flags & BTL_ATOMIC_WORD_32))) {
            expect(status == BTL_NOT_SUPPORTED, "compare-swap is not offered");
            continue;
        }
        expect(status == BTL_SUCCESS, "compare-swap on %s returned %d", target->name, (int)status);
        expect(memcmp(&words[1], &words[0], flags ? 4 : 8) == 0, "compare-swap fetches");
        expect(get(module, target, &words[2], 24, 8) == BTL_SUCCESS && words[2] == wanted,
               "compare-swap with %s value on %s", equal ? "the right" : "another", target->name);
    }
}

/* ---- Typed atomics -------------------------------------------------------------------------- */

/* Fills elements with small values of either sign that are exact in every type. */
static void fill(uint32_t datatype, void *elements, int first)
{
    for (int at = 0; at < ELEMENTS; at++) {
        double value = at % 2 && datatype != BTL_DATATYPE_UINT8 ? first + at : first + 2 * at;
        int64_t integer = (int64_t)value;
        float narrow = (float)value;
        void *to = (char *)elements + (size_t)at * element_size(datatype);
        if (datatype == BTL_DATATYPE_DOUBLE)
            memcpy(to, &value, sizeof value);
        else if (datatype == BTL_DATATYPE_FLOAT)
            memcpy(to, &narrow, sizeof narrow);
        else
            memcpy(to, &integer, element_size(datatype)); /* little-endian: the low bytes */
    }
}

/* One operation, type and shape that the module says it serves. */
static void check_typed(btl_module *module, const struct target *target, uint32_t datatype,
                        uint32_t op, uint32_t kind, size_t count)
{
    const btl_module_vtable *vtable = module->vtable;
    size_t element = element_size(datatype), size = element * count;
    unsigned char *old = scratch, *operands = scratch + 256, *results = scratch + 512,
                  *compare = scratch + 768, *back = scratch + 1024, wanted[64];
    struct pending pending = {0};
    btl_status status;
    fill(datatype, old, -3);
    fill(datatype, operands, 2);
    fill(datatype, compare, -3);
    memcpy(wanted, old, size);
    for (size_t at = 0; at < size; at += element)
        element_apply(datatype, op, wanted + at, operands + at, compare + at);
    expect(put(module, target, old, 64, size) == BTL_SUCCESS, "put of elements");
    memset(results, 0xee, size);
    if (kind == BTL_ATOMIC_KIND_UPDATE)
        ISSUE(status, vtable->atomic_opv(module, target->endpoint, operands, target->address + 64,
                                         scratch_handle, target->handle, datatype, op, count,
                                         landed, &pending, NULL));
    else if (kind == BTL_ATOMIC_KIND_FETCH && op == BTL_ATOMIC_OP_READ)
        ISSUE(status, vtable->atomic_fopv(module, target->endpoint, NULL, results,
                                          target->address + 64, NULL, scratch_handle,
                                          target->handle, datatype, op, count, landed, &pending,
                                          NULL));
    else if (kind == BTL_ATOMIC_KIND_FETCH)
        ISSUE(status, vtable->atomic_fopv(module, target->endpoint, operands, results,
                                          target->address + 64, scratch_handle, scratch_handle,
                                          target->handle, datatype, op, count, landed, &pending,
                                          NULL));
    else
        ISSUE(status, vtable->atomic_cswapv(module, target->endpoint, operands, compare, results,
                                            target->address + 64, scratch_handle, target->handle,
                                            datatype, landed, &pending, NULL));
    status = finish(&pending, status);
    expect(status == BTL_SUCCESS, "datatype %u, operation %u, kind %u on %s returned %d", datatype,
           op, kind, target->name, (int)status);
    expect(kind == BTL_ATOMIC_KIND_UPDATE || memcmp(results, old, size) == 0,
           "datatype %u, operation %u, kind %u fetches the old elements from %s", datatype, op,
           kind, target->name);
    expect(get(module, target, back, 64, size) == BTL_SUCCESS && memcmp(back, wanted, size) == 0,
           "datatype %u, operation %u, kind %u leaves the right elements at %s", datatype, op, kind,
           target->name);
}

static unsigned check_all_typed(btl_module *module, const struct target *target)
{
    unsigned served = 0;
    for (uint32_t datatype = 0; datatype <= BTL_DATATYPE_DOUBLE; datatype++)
        for (uint32_t op = 0; op <= BTL_ATOMIC_OP_CSWAP; op++)
            for (uint32_t kind = 0; kind <= BTL_ATOMIC_KIND_COMPARE; kind++) {
                size_t most = 0;
                btl_status status =
                    module->vtable->atomic_query(module, datatype, op, kind, &most);
                /* Of the compare shapes, the ABI has a function for the plain one only. */
                if (kind == BTL_ATOMIC_KIND_COMPARE && op != BTL_ATOMIC_OP_CSWAP)
                    continue;
                expect(status == BTL_NOT_SUPPORTED || (status == BTL_SUCCESS && most >= 1),
                       "query of datatype %u, operation %u, kind %u returned %d", datatype, op,
                       kind, (int)status);
                if (status != BTL_SUCCESS)
                    continue;
                served++;
                check_typed(module, target, datatype, op, kind,
                            kind == BTL_ATOMIC_KIND_COMPARE || most < ELEMENTS ? 1 : ELEMENTS);
            }
    return served;
}
