/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host in C, through btl_plugin.h alone:  host PLUGIN [NAME=VALUE]...
 *
 * Two processes load the plugin, exchange addresses, and call every entry of its tables, for
 * themselves and for each other; then they make every call that must be refused. The program
 * prints its choices and the number of checks; exits 1 if a check failed, 2 if it could not run.
 * The self-check of the Rust host tests the operations with every type and size.
 *
 * With -DFUTURE, the program is a host of the imagined ABI 1.2 of future.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#include "btl_plugin.h"
#include "element.h"
#include "future.h"
#include "services.h"

/* The time in seconds after which SIGALRM ends a hanging run. */
#define TIME_LIMIT 100

static struct host host;
static unsigned passed, failed;

__attribute__((format(printf, 2, 3))) static bool expect(bool condition, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    condition ? passed++ : failed++;
    if (!condition)
        fprintf(stderr, "rank %llu: FAILED: %s\n", (unsigned long long)host.rank, line);
    return condition;
}

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "rank %llu: ", (unsigned long long)host.rank);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

#include "checks.h"
#include "refusals.h"

/* ---- Loading -------------------------------------------------------------------------------- */

#ifdef FUTURE
static uint64_t job_size(void *context)
{
    (void)context;
    return 2;
}
#endif

static const btl_host_vtable *this_host(void)
{
#ifdef FUTURE
    static future_host_vtable table;
    table.v1_0 = *host_table(&host);
    table.v1_0.header =
        (btl_table_header){BTL_MAGIC_HOST, BTL_ABI_MAJOR, BTL_ABI_MINOR + 1,
                           sizeof(future_host_vtable)};
    table.job_size = job_size;
    return &table.v1_0;
#else
    return host_table(&host);
#endif
}

/* Ends the run unless the table is usable; the message names the expected and the found
 * value. */
static void check_table(const char *file, const char *name, const btl_table_header *header,
                        uint64_t magic, size_t size)
{
    if (header == NULL)
        refuse("%s: %s table: wanted a pointer, found NULL", file, name);
    if (header->magic != magic)
        refuse("%s: %s table: wanted magic %#llx, found %#llx", file, name,
               (unsigned long long)magic, (unsigned long long)header->magic);
    if (header->abi_major != BTL_ABI_MAJOR)
        refuse("%s: %s table: wanted ABI %d.x, found ABI %d.%d", file, name, BTL_ABI_MAJOR,
               header->abi_major, header->abi_minor);
    if (header->size < size)
        refuse("%s: %s table: wanted at least %zu bytes, found %u", file, name, size, header->size);
}

static const btl_component_vtable *load(const char *file)
{
    const btl_component_vtable *component = NULL;
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    btl_entry_fn entry;
    btl_status status;
    if (object == NULL)
        refuse("%s", dlerror());
    *(void **)&entry = dlsym(object, BTL_ENTRY_SYMBOL);
    if (entry == NULL)
        refuse("%s: wanted the function %s, found none", file, BTL_ENTRY_SYMBOL);
    check_entry_refusals(entry);
    status = entry(this_host(), &component);
    if (status != BTL_SUCCESS)
        refuse("%s: the entry returned %d", file, (int)status);
    check_table(file, "component", component == NULL ? NULL : &component->header,
                BTL_MAGIC_COMPONENT, BTL_COMPONENT_VTABLE_MIN_SIZE);
    return component;
}

static void show_provider(void *context, const btl_provider *provider)
{
    unsigned *chosen = context;
    *chosen += provider->chosen;
    if (host.rank == 0)
        printf("provider %s, domain %s: %s%s\n", provider->name, provider->domain,
               provider->refusal == NULL ? "usable" : provider->refusal,
               provider->chosen ? ", chosen" : "");
}

/* ---- The entries that a newer side finds in an older one, and the reverse
 * ---------------------- */

static void check_growth(const btl_component_vtable *component, btl_component *instance,
                         btl_module *module)
{
    printf("rank %llu: host ABI 1.%d, plugin ABI %d.%d\n", (unsigned long long)host.rank,
           this_host()->header.abi_minor, component->header.abi_major,
           component->header.abi_minor);
#ifdef FUTURE
    bool newer = component->header.abi_minor > BTL_ABI_MINOR;
    uint64_t size = 0;
    expect(FUTURE_HOLDS(component, future_component_vtable, modules) == newer &&
               FUTURE_HOLDS(module->vtable, future_module_vtable, job_size) == newer &&
               FUTURE_HOLDS(module->attributes, future_attributes, region_limit) == newer,
           "an entry of the next ABI exists in plugins of it alone");
    if (!newer)
        return;
    expect(((const future_component_vtable *)component)->modules(instance) == 1,
           "the component of the next ABI counts its module");
    expect(((const future_module_vtable *)module->vtable)->job_size(module, &size) == BTL_SUCCESS &&
               size == 2,
           "the module of the next ABI asks its host");
    expect(((const future_attributes *)module->attributes)->region_limit > 0,
           "the attributes of the next ABI are filled");
#else
    (void)instance, (void)module;
#endif
}

/* ---- A rank --------------------------------------------------------------------------------- */

static int run_rank(const char *file)
{
    const btl_component_vtable *component = load(file);
    btl_component *instance = NULL;
    btl_module *modules[4] = {NULL};
    size_t count = 4;
    unsigned chosen = 0, declared;
    btl_status status;

    if ((status = component->register_params(this_host())) != BTL_SUCCESS)
        refuse("register_params returned %d", (int)status);
    declared = host.parameters;
    expect(declared > 0, "the component declares parameters");
    if ((status = component->open(this_host(), &instance)) != BTL_SUCCESS)
        refuse("open returned %d", (int)status);
    expect(component->survey(instance, show_provider, &chosen) == BTL_SUCCESS, "survey");
    expect(chosen <= 1, "a survey chooses at most one provider, found %u", chosen);
    if ((status = component->init(instance, BTL_THREAD_SINGLE, modules, &count)) != BTL_SUCCESS)
        refuse("init returned %d", (int)status);
    expect(count >= 1 && count <= 4 && chosen == 1, "init makes a module of the chosen provider");
    check_table(file, "module", &modules[0]->vtable->header, BTL_MAGIC_MODULE,
                BTL_MODULE_VTABLE_MIN_SIZE);
    check_table(file, "attributes", &modules[0]->attributes->header, BTL_MAGIC_ATTRIBUTES,
                BTL_ATTRIBUTES_MIN_SIZE);
    if (host.rank == 0)
        printf("component %s (%s), provider %s, domain %s\ncompletion: %s\n", component->name,
               component->version, modules[0]->attributes->provider,
               modules[0]->attributes->domain, modules[0]->attributes->completion);

    host.progress = component->progress;
    host.component = instance;
    host_modex_exchange(&host);
    check_growth(component, instance, modules[0]);
    check_module(modules[0]);
    for (size_t at = 0; at < count; at++)
        expect(modules[at]->vtable->finalize(modules[at]) == BTL_SUCCESS, "finalize");
    host.component = NULL;
    expect(component->close(instance) == BTL_SUCCESS, "close");
    printf("rank %llu: %u passed, %u failed\n", (unsigned long long)host.rank, passed, failed);
    return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    int sockets[2], outcome, status = 0;
    pid_t partner;
    if (argc < 2) {
        fprintf(stderr, "usage: host PLUGIN [NAME=VALUE]...\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
        perror("socketpair");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(TIME_LIMIT);
    host.settings = argv + 2;
    partner = fork();
    if (partner < 0) {
        perror("fork");
        return 2;
    }
    host.rank = partner == 0;
    host.socket = sockets[host.rank];
    close(sockets[1 - host.rank]);
    if (partner == 0) {
        alarm(TIME_LIMIT);
        return run_rank(argv[1]);
    }
    outcome = run_rank(argv[1]);
    waitpid(partner, &status, 0);
    if (!WIFEXITED(status)) {
        fprintf(stderr, "rank 1: ended by signal %d\n", WTERMSIG(status));
        return 1;
    }
    return outcome != 0 ? outcome : WEXITSTATUS(status);
}
