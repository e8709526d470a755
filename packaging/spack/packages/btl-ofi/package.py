import os

from spack.package import *


class BtlOfi(Package):
    """One-sided communication over libfabric: the host host-stub with its library and plugin, and a component for
    Open MPI that makes puts, gets and atomics of MPI windows."""

    # The clone that contains this file.
    git = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("BSD-3-Clause")

    version("main", get_full_repo=True)

    # Open MPI's devel headers are needed: it must be configured with --with-devel-headers. Otherwise the build
    # reports the missing headers.
    variant("openmpi", default=False, description="Build the components osc/ofi_rs and btl/ofi_rs for Open MPI 4.1 or 5.0")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("libfabric@1.14:", type=("link", "run"))
    depends_on("openmpi@4.1:5.0", when="+openmpi", type=("build", "link", "run"))
    depends_on("llvm+clang", when="+openmpi", type="build")

    def setup_build_environment(self, env):
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))
        if self.spec.satisfies("+openmpi"):
            # mpicc of this Open MPI also names the folders of hwloc, libevent and PMIx, which the headers include.
            env.prepend_path("PATH", self.spec["openmpi"].prefix.bin)
            env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        packages = ["host-stub-command", "btl-ofi-plugin", "host-stub-c"]
        if spec.satisfies("+openmpi"):
            packages.append("mca-btl-ofi")
        cargo("build", "--release", "--locked", *[word for name in packages for word in ("-p", name)])
        release = join_path("target", "release")
        mkdirp(prefix.bin, prefix.lib, prefix.include)
        install(join_path(release, "host-stub"), prefix.bin)
        install(join_path(release, "libhost_stub.so"), prefix.lib)
        install(join_path(release, "libbtl_ofi.so"), prefix.lib)
        for folder in ("host-stub/c/include", "plugin-api/include"):
            install_tree(folder, prefix.include)
        mkdirp(prefix.lib.pkgconfig)
        for name in ("host-stub", "btl-plugin"):
            target = join_path(prefix.lib.pkgconfig, name + ".pc")
            install(join_path("packaging", name + ".pc.in"), target)
            filter_file("@PREFIX@", prefix, target, string=True)
            filter_file("@LIBDIR@", "${prefix}/lib", target, string=True)
            filter_file("@VERSION@", str(spec.version), target, string=True)
        if spec.satisfies("+openmpi"):
            mkdirp(prefix.lib.openmpi)
            install(join_path(release, "libmca_btl_ofi.so"), join_path(prefix.lib.openmpi, "mca_btl_ofi_rs.so"))
            symlink("mca_btl_ofi_rs.so", join_path(prefix.lib.openmpi, "mca_osc_ofi_rs.so"))
            install_tree("btl-ofi/openmpi/include", prefix.include)

    def setup_run_environment(self, env):
        # The programs open libfabric when they need it.
        env.prepend_path("LD_LIBRARY_PATH", self.spec["libfabric"].libs.directories[0])
        if self.spec.satisfies("+openmpi"):
            folders = [self.prefix.lib.openmpi, self.spec["openmpi"].prefix.lib.openmpi]
            env.set("OMPI_MCA_mca_base_component_path", ":".join(folders))
