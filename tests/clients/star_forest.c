/* PETSc's star forest over windows: each rank's leaves are cells of its neighbours. Broadcasts get with
 * derived types, and sums accumulate with them, in every kind of epoch; the results are compared with PETSc's
 * basic star forest, which uses messages. Windows that PETSc does not create itself are left out: Debian's
 * PETSc is built without such windows. Prints "star_forest: ok, N ranks in X us a broadcast". */
#include <petscsf.h>
#include <petsctime.h>

enum { ROOTS = 100, ROUNDS = 200 };

/* A forest in which leaf i of a rank is a root of the next rank or the one after the next. */
static PetscErrorCode forest(const char *type, PetscSF *sf) {
    PetscSFNode remote[ROOTS];
    PetscMPIInt rank, size;
    PetscFunctionBegin;
    PetscCall(PetscSFCreate(PETSC_COMM_WORLD, sf));
    PetscCall(PetscSFSetType(*sf, type));
    PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
    PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
    for (PetscInt at = 0; at < ROOTS; at++) {
        remote[at].rank = (rank + 1 + at % 2) % size;
        remote[at].index = (at * 7) % ROOTS;
    }
    PetscCall(PetscSFSetGraph(*sf, ROOTS, ROOTS, NULL, PETSC_COPY_VALUES, remote, PETSC_COPY_VALUES));
    PetscFunctionReturn(0);
}

static PetscErrorCode broadcast(PetscSF sf, const PetscInt *roots, PetscInt *leaves) {
    PetscFunctionBegin;
    PetscCall(PetscSFBcastBegin(sf, MPIU_INT, roots, leaves, MPI_REPLACE));
    PetscCall(PetscSFBcastEnd(sf, MPIU_INT, roots, leaves, MPI_REPLACE));
    PetscFunctionReturn(0);
}

static PetscErrorCode sum(PetscSF sf, const PetscInt *leaves, PetscInt *roots) {
    PetscFunctionBegin;
    PetscCall(PetscSFReduceBegin(sf, MPIU_INT, leaves, roots, MPI_SUM));
    PetscCall(PetscSFReduceEnd(sf, MPIU_INT, leaves, roots, MPI_SUM));
    PetscFunctionReturn(0);
}

static PetscErrorCode compare(const PetscInt *found, const PetscInt *wanted, const char *what) {
    PetscFunctionBegin;
    for (PetscInt at = 0; at < ROOTS; at++) {
        PetscCheck(found[at] == wanted[at], PETSC_COMM_SELF, PETSC_ERR_PLIB,
                   "%s %" PetscInt_FMT " is %" PetscInt_FMT ", wanted %" PetscInt_FMT, what, at, found[at], wanted[at]);
    }
    PetscFunctionReturn(0);
}

/* The values of a round. */
static void fill(PetscInt *roots, PetscInt *leaves, PetscInt round) {
    PetscMPIInt rank;
    MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
    for (PetscInt at = 0; at < ROOTS; at++) {
        roots[at] = 100000 * round + 1000 * rank + at;
        leaves[at] = -1;
    }
}

int main(int argc, char **argv) {
    const PetscSFWindowSyncType syncs[] = {PETSCSF_WINDOW_SYNC_FENCE, PETSCSF_WINDOW_SYNC_LOCK, PETSCSF_WINDOW_SYNC_ACTIVE};
    PetscInt roots[ROOTS], summed[ROOTS], wanted[ROOTS], found[ROOTS];
    PetscLogDouble begin = 0, end = 0;
    PetscMPIInt size;
    PetscSF basic, window;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
    PetscCall(forest(PETSCSFBASIC, &basic));
    for (PetscInt sync = 0; sync < 3; sync++) {
        PetscCall(forest(PETSCSFWINDOW, &window));
        PetscCall(PetscSFWindowSetFlavorType(window, PETSCSF_WINDOW_FLAVOR_CREATE));
        PetscCall(PetscSFWindowSetSyncType(window, syncs[sync]));
        for (PetscInt round = 0; round < 20; round++) {
            fill(roots, wanted, round + 100 * sync);
            PetscCall(broadcast(basic, roots, wanted));
            fill(roots, found, round + 100 * sync);
            PetscCall(broadcast(window, roots, found));
            PetscCall(compare(found, wanted, "leaf"));
            for (PetscInt at = 0; at < ROOTS; at++) {
                summed[at] = roots[at];
            }
            PetscCall(sum(basic, wanted, summed));
            PetscCall(sum(window, wanted, roots));
            PetscCall(compare(roots, summed, "root"));
        }
        if (sync == 0) {
            PetscCall(PetscTime(&begin));
            for (int round = 0; round < ROUNDS; round++) {
                PetscCall(broadcast(window, roots, found));
            }
            PetscCall(PetscTime(&end));
        }
        PetscCall(PetscSFDestroy(&window));
    }
    PetscCall(PetscSFDestroy(&basic));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "star_forest: ok, %d ranks in %.2f us a broadcast\n", size,
                          (end - begin) / ROUNDS * 1e6));
    return PetscFinalize();
}
