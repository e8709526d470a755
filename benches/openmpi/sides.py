"""The sides that are compared with this component: what else carries windows under Open MPI, and MPICH, with the settings of
a job of each. A path is what lies between its ranks: node, tcp, net or hosts.

Over tcp and net the ranks are on one machine too, but nothing goes by shared memory, as between hosts. These two paths differ by
the provider that libfabric's users use: tcp;ofi_rxm, or net.
"""

import os
from pathlib import Path

from turns import WINDOWS

# The network of the hosts that scripts/hosts.sh makes.
NETWORK = "10.88.0.0/24"

# osc/rdma, with fragments of 512 KiB instead of its default of 4 KiB.
RDMA = {"osc": "rdma", "osc_rdma_buffer_size": "4194304"}

# Makes osc/rdma use a given component on one node, where Open MPI prefers its own shared memory.
OVER_BTL = {**RDMA, "btl": "self,vader,ofi", "btl_vader_single_copy_mechanism": "none"}

# Messages of the C component and of osc/pt2pt over TCP, on loopback.
OVER_TCP = {"btl_tcp_if_include": "lo"}

# osc/ucx on a machine without a network for UCX.
UCX = {"pml": "ucx", "osc": "ucx", **{name: "any" for name in (
    "pml_ucx_tls", "pml_ucx_devices", "opal_common_ucx_tls", "opal_common_ucx_devices")}}


def provider(name):
    """The setting that names a provider, for either component."""
    return {"opal_common_ofi_provider_include": name}


def path(options):
    """The setting by which our component is found before the system's."""
    return {"mca_base_component_path": f"{options.component}:{options.system}"}


def node(options, windows):
    """Sides between ranks of one node, for windows that are made as `windows` says: (name, settings, exported variables)."""
    sides = [
        # The command of a user, without options.
        (WINDOWS, path(options), []),
        # osc/rdma selects the component by its latency, and vader carries messages.
        ("ours, osc/rdma", {**path(options), **RDMA, "btl": "self,vader,ofi_rs", **provider("shm")}, []),
        ("C btl/ofi", {**OVER_BTL, **provider("shm")}, []),
        ("osc/pt2pt, btl/vader", {"osc": "pt2pt", "btl": "self,vader"}, []),
        ("osc/ucx", UCX, []),
    ]
    if windows == "allocate":
        # osc/sm has only windows over memory that it allocated.
        sides.append(("osc/sm", {"osc": "sm", "btl": "self,vader"}, []))
    return sides


def tcp(options, name):
    """The same over TCP, on loopback, with the provider `name`."""
    rdma = {**path(options), **RDMA, "btl": "self,ofi_rs", "btl_ofi_mode": "2", "btl_ofi_same_node": "off", **provider(name)}
    # The default list of BTLs without vader, as between hosts, where it decides when libfabric is loaded: if the list admits ofi_rs,
    # before Open MPI's mtl/psm, which shares libraries of libfabric that measure the processor's clock for 0.2 s.
    osc = {**path(options), **OVER_TCP, "btl": "^vader,uct,openib,ofi", "btl_ofi_same_node": "off", **provider(name)}
    sides = [
        (WINDOWS, osc, ["FI_TCP_IFACE=lo"]),
        ("ours, osc/rdma", rdma, ["FI_TCP_IFACE=lo"]),
        ("osc/pt2pt, btl/tcp", {"osc": "pt2pt", **OVER_TCP, "btl": "self,tcp"}, []),
        ("osc/ucx, tcp", UCX, ["UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"]),
    ]
    if name == "net":
        # The other component refuses tcp;ofi_rxm, which has no atomics.
        sides.append(("C btl/ofi", {**RDMA, **OVER_TCP, "btl": "self,tcp,ofi", **provider(name)}, ["FI_TCP_IFACE=lo"]))
    return sides


def hosts(options):
    """The same between two hosts that `options.mpirun` names, which share NETWORK."""
    ours = {**path(options), **RDMA, "btl": "self,ofi_rs", "btl_ofi_mode": "2", "btl_ofi_if_include": NETWORK}
    # sockets is the only provider with which the other component works between hosts: net has no atomics,
    # and the component refuses the other providers.
    theirs = {**RDMA, "btl": "self,tcp,ofi", **provider("sockets")}
    return [
        (WINDOWS, {**path(options), "btl_ofi_if_include": NETWORK}, []),
        ("ours, osc/rdma, net", {**ours, **provider("net")}, []),
        ("ours, osc/rdma, tcp;ofi_rxm", {**ours, **provider("tcp;ofi_rxm")}, []),
        ("C btl/ofi, sockets", theirs, ["FI_SOCKETS_IFACE=eth0", "FI_SOCKETS_PE_WAITTIME=0"]),
        ("osc/pt2pt, btl/tcp", {"osc": "pt2pt", "btl": "self,tcp"}, []),
        ("osc/ucx, tcp", UCX, ["UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"]),
    ]


# MPICH's name by path, and the environment of its jobs.
MPICH_TCP = ("MPICH, tcp", {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"})
MPICH = {"node": ("MPICH", {}), "tcp": MPICH_TCP, "net": MPICH_TCP}


def competing(names, where, name):
    """The sides that a measurement is compared with. Between nodes the C component is not compared for puts: its flush returns
    when the data is sent, not when it has arrived. MPICH's does so for puts of up to 128 bytes: with a target that made no
    progress for 0.6 s, flushes behind them returned within 0.2 ms, and flushes behind longer puts waited for the target. MPICH
    starts its ranks by a launcher of its own, so its start and end are not compared."""
    left = ()
    if where != "node" and name.startswith("put_") and not name.startswith("put_seen"):
        left = ("C ",) if name.startswith("put_bandwidth") else ("C ", "MPICH")
    elif name.startswith(("init", "finalize")):
        left = ("MPICH",)
    return [side for side in names if not side.startswith(left)]


def mpirun(options, ranks, settings, exported, program):
    """The command line of a job. `mpirun` may have words of its own, such as hosts. Programs bind their ranks themselves, as
    the other benchmarks do."""
    line = [*options.mpirun.split(), "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    for name, value in settings.items():
        line += ["--mca", name, value]
    for variable in exported:
        line += ["-x", variable]
    return line + program


def jobs(options, where, ranks, program, windows="create"):
    """A program under each side of a path: (name, command line, environment). The programs for Open MPI lie in
    the folder `options.bin`, those for MPICH in `options.mpich_bin`, if there is an `options.mpich`."""
    def of(folder):
        return [str(Path(folder) / program[0]), *program[1:]]

    sides = {"node": lambda: node(options, windows), "tcp": lambda: tcp(options, "tcp;ofi_rxm"), "net": lambda: tcp(options, "net"),
             "hosts": lambda: hosts(options)}[where]()
    found = [(name, mpirun(options, ranks, settings, exported, of(options.bin)), None) for name, settings, exported in sides]
    if options.mpich and where in MPICH:
        name, environment = MPICH[where]
        found.append((name, [options.mpich, "-n", str(ranks), *of(options.mpich_bin)], dict(os.environ, **environment)))
    return found


def arguments(parser):
    """Adds what every script needs that starts jobs of all sides."""
    parser.add_argument("--mpirun", default="mpirun", help="with options, if any")
    parser.add_argument("--bin", required=True, help="folder of the programs compiled for Open MPI")
    parser.add_argument("--component", required=True, help="folder that holds our mca_btl_ofi_rs.so")
    parser.add_argument("--system", required=True, help="folder of the system's components")
    parser.add_argument("--mpich", help="MPICH's mpiexec")
    parser.add_argument("--mpich-bin", help="folder of the programs compiled for MPICH")
