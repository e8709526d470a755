/* Reductions of pairs, of complex numbers and by operations of the program, through a layer of the program too. */
#include <complex.h>

#include "example.h"

#define LAYER 60

/* A 2 by 2 matrix of integers; their product does not commute. */
typedef struct {
    int64_t cell[2][2];
} matrix_t;

typedef struct {
    double value;
    int index;
} located_t;

static void multiply(const void *left, void *right, size_t count, size_t size, void *data) {
    const matrix_t *a = left;
    matrix_t *b = right;
    EXPECT(size == sizeof *a);
    (*(int *)data)++;
    for (size_t at = 0; at < count; at++) {
        matrix_t product;
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 2; j++) {
                product.cell[i][j] = a[at].cell[i][0] * b[at].cell[0][j] + a[at].cell[i][1] * b[at].cell[1][j];
            }
        }
        b[at] = product;
    }
}

/* What a layer of the program saw last. */
static host_coll_args_t seen;

static int look(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                const host_coll_args_t *args) {
    seen = *args;
    return host_coll_previous(data, layer, comm, collective, args);
}

static int look_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                      const host_coll_args_t *args, host_coll_request_t **request) {
    seen = *args;
    return host_coll_previous_start(data, layer, comm, collective, args, request);
}

static int made(host_comm_t *comm, void *param) {
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    (void)param;
    MUST(host_comm_get_table(comm, &table));
    table.entries[HOST_COLL_ALLREDUCE].blocking = look;
    table.entries[HOST_COLL_ALLREDUCE].nonblocking = look_start;
    return host_comm_override(comm, &table);
}

static int ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_restore(comm);
}

static int rank, size;

static matrix_t of_rank(int which) {
    return (matrix_t){{{1, which + 1}, {which, 1}}};
}

/* The matrices of ranks before `end`, multiplied in their order. */
static matrix_t product_to(int end) {
    matrix_t product = {{{1, 0}, {0, 1}}};
    int calls = 0;
    for (int which = 0; which < end; which++) {
        matrix_t next = of_rank(which);
        multiply(&product, &next, 1, sizeof next, &calls);
        product = next;
    }
    return product;
}

static void matrices(host_comm_t *comm) {
    int calls = 0, op = 0, again = 0, type = host_type_of_size(sizeof(matrix_t));
    enum { MANY = 3000 };
    matrix_t *mine = calloc(MANY, sizeof *mine), *all = calloc(MANY, sizeof *all);
    MUST(type);
    MUST(host_op_create(multiply, &calls, 0, &op));
    for (int at = 0; at < MANY; at++) {
        mine[at] = of_rank(rank);
    }
    matrix_t whole = product_to(size), mine_too = product_to(rank + 1);
    /* Short and long, with every root. */
    for (size_t count = 1; count <= MANY; count += MANY - 1) {
        MUST(host_allreduce(mine, all, count, type, op, comm));
        EXPECT(seen.datatype == type && seen.op == op);
        EXPECT(memcmp(&all[0], &whole, sizeof whole) == 0);
        EXPECT(memcmp(&all[count - 1], &whole, sizeof whole) == 0);
        for (int root = 0; root < size; root++) {
            memset(all, 0, MANY * sizeof *all);
            MUST(host_reduce(mine, all, count, type, op, root, comm));
            EXPECT(rank != root || memcmp(&all[count - 1], &whole, sizeof whole) == 0);
        }
        MUST(host_scan(mine, all, count, type, op, comm));
        EXPECT(memcmp(&all[count - 1], &mine_too, sizeof whole) == 0);
    }
    EXPECT(size == 1 || calls > 0);
    /* The same function with the same data is one operation. */
    MUST(host_op_create(multiply, &calls, 0, &again));
    EXPECT(op == again);
    MUST(host_op_free(&again));
    EXPECT(again == -1);
    MUST(host_allreduce(mine, all, 1, type, op, comm));
    again = op;
    MUST(host_op_free(&op));
    EXPECT(host_allreduce(mine, all, 1, type, again, comm) == HOST_ERR_ARG);
    EXPECT(strstr(host_error_text(), "freed") != NULL);
    EXPECT(host_op_free(&again) == HOST_ERR_ARG && strstr(host_error_text(), "freed before"));
    again = HOST_SUM;
    EXPECT(host_op_free(&again) == HOST_ERR_ARG);
    again = 0x100 + 77;
    EXPECT(host_op_free(&again) == HOST_ERR_ARG);
    EXPECT(host_op_create(NULL, NULL, 0, &again) == HOST_ERR_ARG);
    EXPECT(host_type_of_size(0) == HOST_ERR_ARG && host_type_of_size((size_t)1 << 40) == HOST_ERR_ARG);
    free(mine);
    free(all);
}

static void pairs_and_complex_numbers(host_comm_t *comm) {
    /* Every second rank has the greatest value: the first of them is named. */
    located_t mine = {rank % 2 ? 2.5 : -1.0, 100 + rank}, found = {0, 0};
    MUST(host_allreduce(&mine, &found, 1, HOST_DOUBLE_INT, HOST_MAXLOC, comm));
    EXPECT(found.value == (size > 1 ? 2.5 : -1.0) && found.index == (size > 1 ? 101 : 100));
    MUST(host_allreduce(&mine, &found, 1, HOST_DOUBLE_INT, HOST_MINLOC, comm));
    EXPECT(found.value == -1.0 && found.index == 100);
    double complex one = 1.0 + rank * I, sum = 0, product = 1;
    MUST(host_allreduce(&one, &sum, 1, HOST_DOUBLE_COMPLEX, HOST_SUM, comm));
    EXPECT(creal(sum) == size && cimag(sum) == size * (size - 1) / 2);
    MUST(host_allreduce(&one, &product, 1, HOST_DOUBLE_COMPLEX, HOST_PROD, comm));
    double complex wanted = 1;
    for (int which = 0; which < size; which++) {
        wanted *= 1.0 + which * I;
    }
    EXPECT(creal(product) == creal(wanted) && cimag(product) == cimag(wanted));
    EXPECT(host_allreduce(&one, &sum, 1, HOST_DOUBLE_COMPLEX, HOST_MAX, comm) == HOST_ERR_ARG);
    EXPECT(host_allreduce(&one, &sum, 1, HOST_DOUBLE, HOST_MINLOC, comm) == HOST_ERR_ARG);
    EXPECT(strstr(host_error_text(), "minloc") != NULL);
    EXPECT(host_allreduce(&one, &sum, 1, 17, HOST_SUM, comm) == HOST_ERR_ARG);
}

int main(void) {
    host_comm_t *world = NULL, *comm = NULL;
    MUST(host_init());
    MUST(host_comm_world(&world));
    MUST(host_comm_hooks_register(LAYER, made, ended, NULL));
    MUST(host_comm_dup(world, &comm));
    rank = host_comm_rank(comm), size = host_comm_size(comm);
    matrices(comm);
    pairs_and_complex_numbers(comm);
    MUST(host_comm_free(&comm));
    MUST(host_finalize());
    puts("passed");
    return 0;
}
