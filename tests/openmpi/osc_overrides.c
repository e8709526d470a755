/* The functions of openmpi_ofi_rs.h: the level of device support, and the program's copy functions, set
 * before and after MPI_Init.
 *
 *   osc_overrides [LEVEL]        a device is copied by the program's functions where the level is 2, as it is unless given
 *   osc_overrides absent         the component is not there */
#include <errno.h>

#include "device.h"

#include "btl_plugin.h"
#include "openmpi_ofi_rs.h"

/* The header repeats the plugin's table. */
#define SAME(member, plugins) \
    _Static_assert(offsetof(MPIX_Device_overrides, member) == offsetof(btl_override_ops, plugins), #member)
SAME(magic, header.magic);
SAME(major, header.abi_major);
SAME(minor, header.abi_minor);
SAME(size, header.size);
SAME(copy_from_hmem_iov, copy_from_hmem_iov);
SAME(copy_to_hmem_iov, copy_to_hmem_iov);
SAME(copy_from_hmem_strided, copy_from_hmem_strided);
SAME(copy_to_hmem_strided, copy_to_hmem_strided);
SAME(copy_from_hmem_async, copy_from_hmem_async);
SAME(copy_to_hmem_async, copy_to_hmem_async);
SAME(query_event, query_event);
SAME(stream, stream);
_Static_assert(sizeof(MPIX_Device_overrides) == sizeof(btl_override_ops), "size");
_Static_assert(MPIX_DEVICE_KIND_HOST == BTL_HMEM_SYSTEM && MPIX_DEVICE_KIND_CUDA == BTL_HMEM_CUDA, "kinds");

enum { BYTES = 96 << 10 };

static unsigned long long copies[2]; /* from the device, to the device */

/* Copies one run at a time through the driver. Threads of the component may call this. */
static ssize_t copied(char *flat, size_t size, const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset, int to)
{
    size_t done = 0;
    if (cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return -EIO;
    for (size_t i = 0; i < count && done < size; i++) {
        if (offset >= runs[i].iov_len) {
            offset -= runs[i].iov_len;
            continue;
        }
        char *at = (char *) runs[i].iov_base + offset;
        size_t part = runs[i].iov_len - offset < size - done ? runs[i].iov_len - offset : size - done;
        offset = 0;
        if (MPIX_DEVICE_KIND_CUDA != kinds[i])
            memcpy(to ? at : flat + done, to ? flat + done : at, part);
        else if (to)
            copy((CUdeviceptr) at, (CUdeviceptr) (flat + done), part);
        else
            copy((CUdeviceptr) (flat + done), (CUdeviceptr) at, part);
        done += part;
    }
    __atomic_add_fetch(&copies[to], 1, __ATOMIC_RELAXED);
    CUcontext popped;
    return cuCtxPopCurrent(&popped) == CUDA_SUCCESS ? (ssize_t) done : -EIO;
}

static ssize_t from_device(void *dest, size_t size, const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset)
{
    return copied(dest, size, runs, kinds, count, offset, 0);
}

static ssize_t to_device(const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset, const void *src, size_t size)
{
    return copied((char *) (uintptr_t) src, size, runs, kinds, count, offset, 1);
}

static ssize_t knows_no_kind_from(void *dest, size_t size, const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset)
{
    (void) dest, (void) size, (void) runs, (void) kinds, (void) count, (void) offset;
    return -ENOSYS;
}

static ssize_t knows_no_kind_to(const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset, const void *src, size_t size)
{
    (void) runs, (void) kinds, (void) count, (void) offset, (void) src, (void) size;
    return -ENOSYS;
}

static const MPIX_Device_overrides mine = {MPIX_DEVICE_OVERRIDES, .copy_from_hmem_iov = from_device, .copy_to_hmem_iov = to_device};
static const MPIX_Device_overrides unknown = {MPIX_DEVICE_OVERRIDES, .copy_from_hmem_iov = knows_no_kind_from,
                                              .copy_to_hmem_iov = knows_no_kind_to};

/* Checks the attribute, and the variable of MPI_T. */
static void level_is(int wanted)
{
    int key = MPI_KEYVAL_INVALID, again, *level, found = 0, given, count;
    CHECK(MPI_SUCCESS == MPIX_Query_device_level(&key), "the level");
    CHECK(MPI_SUCCESS == MPIX_Query_device_level(&again) && again == key, "another key");
    CHECK(MPI_ERR_ARG == MPIX_Query_device_level(NULL), "NULL");
    CHECK(MPI_SUCCESS == MPI_Comm_get_attr(MPI_COMM_WORLD, key, &level, &found) && found, "the attribute");
    CHECK(*level == wanted, "level %d and not %d", *level, wanted);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &given);
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long read[2];
    const char *names[2] = {"osc_ofi_rs_device_support", "osc_ofi_rs_cuda_devices"};
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < 2; i++) {
        int index;
        CHECK(MPI_SUCCESS == MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_LEVEL, &index), "%s", names[i]);
        CHECK(MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) && 1 == count, "%s", names[i]);
        CHECK(MPI_SUCCESS == MPI_T_pvar_read(session, handle, read + i), "%s", names[i]);
        MPI_T_pvar_handle_free(session, &handle);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    CHECK((int) read[0] == wanted && (read[1] > 0) == (wanted > 1), "level %llu, %llu devices", read[0], read[1]);
}

/* Every rank puts its bytes to the next rank and gets them back, from and to device memory; `salt` changes
 * the bytes. */
static void round_trip(MPI_Win win, Memory *of_window, Memory *buffer, int salt)
{
    char *bytes = malloc(BYTES), *theirs = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char) (i * 3 + world_rank * 17 + salt);
        theirs[i] = (char) (i * 3 + last * 17 + salt);
    }
    fill(buffer, 0, bytes, BYTES);
    MPI_Win_fence(0, win);
    MPI_Put(buffer->at, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    same("the window", of_window, theirs);
    memset(theirs, 0, BYTES);
    fill(buffer, 0, theirs, BYTES);
    MPI_Get(buffer->at, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    same("what was got", buffer, bytes);
    free(bytes);
    free(theirs);
}

static void functions(void)
{
    Memory of_window = memory(BYTES, 1), buffer = memory(BYTES, 1);
    unsigned long long before[2];
    MPI_Win win;
    /* The functions were set before MPI_Init. */
    MPI_Win_create(of_window.at, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    served(win);
    round_trip(win, &of_window, &buffer, 1);
    CHECK(copies[0] > 0 && copies[1] > 0, "%llu and %llu copies by the program", copies[0], copies[1]);
    /* The transport's own functions are used. */
    CHECK(MPI_SUCCESS == MPIX_Set_device_overrides(NULL), "none");
    MPI_Barrier(MPI_COMM_WORLD);
    memcpy(before, copies, sizeof before);
    round_trip(win, &of_window, &buffer, 2);
    CHECK(0 == memcmp(before, copies, sizeof before), "copies by the program's functions, which are not set");
    MPI_Barrier(MPI_COMM_WORLD);
    /* The program's functions are set again, for an existing window. */
    CHECK(MPI_SUCCESS == MPIX_Set_device_overrides(&mine), "the program's");
    MPI_Barrier(MPI_COMM_WORLD);
    round_trip(win, &of_window, &buffer, 3);
    CHECK(copies[0] > before[0] && copies[1] > before[1], "no copy by the program");
    /* No function supports this kind. */
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_SUCCESS == MPIX_Set_device_overrides(&unknown), "functions that know no kind");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    int put = MPI_Put(buffer.at, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win), flushed = MPI_Win_flush(next, win);
    CHECK(MPI_SUCCESS != put || MPI_SUCCESS != flushed, "a put of a kind that no function knows");
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_SUCCESS == MPIX_Set_device_overrides(&mine), "the program's");
    MPI_Barrier(MPI_COMM_WORLD);
    round_trip(win, &of_window, &buffer, 4);
    MPIX_Device_overrides wrong = mine;
    wrong.magic++;
    CHECK(MPI_ERR_ARG == MPIX_Set_device_overrides(&wrong), "another table");
    wrong = mine;
    wrong.size = 8;
    CHECK(MPI_ERR_ARG == MPIX_Set_device_overrides(&wrong), "a table without functions");
    MPI_Win_free(&win);
    release(&of_window);
    release(&buffer);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "2";
    int key, is_absent = 0 == strcmp(wanted, "absent");
    int set = MPIX_Set_device_overrides(&mine), level = MPIX_Query_device_level(&key);
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(set == (is_absent ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS), "set before MPI_Init: %d", set);
    CHECK(level == (is_absent ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_ERR_OTHER), "the level before MPI_Init: %d", level);
    if (is_absent) {
        CHECK(MPI_ERR_UNSUPPORTED_OPERATION == MPIX_Set_device_overrides(&mine), "set");
        CHECK(MPI_ERR_UNSUPPORTED_OPERATION == MPIX_Query_device_level(&key), "the level");
    } else {
        level_is(atoi(wanted));
        if (2 == atoi(wanted)) {
            begin_device();
            functions();
            end_device();
        }
    }
    finish("osc_overrides");
    CHECK(is_absent || MPI_ERR_OTHER == MPIX_Query_device_level(&key), "the level after MPI_Finalize");
}
