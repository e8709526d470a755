#!/usr/bin/env python3
"""UCX alone between two processes, by its own ucx_perftest. Prints rma_bench's lines.

The memory is UCX's own. A put's latency is half of a round trip, as that of put_seen_latency; a get or an atomic is waited for; a
rate or bandwidth is of operations without a flush in between.

Usage: ucx_perftest.py node|tcp
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Our name, bytes, unit, ucx_perftest's options, iterations within a node; over TCP there are a fiftieth.
TESTS = [
    ("put_seen_latency", 8, "us", "-t ucp_put_lat", 200000),
    ("get_latency", 8, "us", "-t ucp_get", 200000),
    ("fetch_op_latency", 8, "us", "-t ucp_fadd", 200000),
    ("compare_swap_latency", 8, "us", "-t ucp_cswap", 200000),
    ("put_rate", 8, "Mop/s", "-t ucp_put_bw", 1000000),
    ("send_latency", 8, "us", "-t tag_lat", 200000),
    ("send_rate", 8, "Mop/s", "-t tag_bw", 200000),
    *((f"{way}_bandwidth", size, "MB/s", test, 40000000 // (size + 4000)) for size in (1 << n for n in range(10, 21, 2))
      for way, test in (("put", "-t ucp_put_bw"), ("get", "-t ucp_get -O 64"))),
]

# Seconds that all tests may take.
LIMIT = 60


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(arguments, core, environment):
    return subprocess.Popen(["ucx_perftest", *arguments, "-f", "-v", "-c", str(core % (os.cpu_count() or 1))],
                            stdout=subprocess.PIPE, text=True, env=environment)


def main():
    where = sys.argv[1]
    # Asked to end, it takes both processes with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ucx_perftest: ended"))
    environment = dict(os.environ, UCX_WARN_UNUSED_ENV_VARS="n")
    if where == "tcp":
        environment |= {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
    with tempfile.NamedTemporaryFile("w", prefix="ucx_perftest", encoding="utf-8") as batch:
        for number, (_, size, _, options, iterations) in enumerate(TESTS):
            count = iterations if where == "node" else iterations // 50
            batch.write(f"{number} {options} -s {size} -n {count} -w {count // 10}\n")
        batch.flush()
        common = ["-b", batch.name, "-p", str(free_port())]
        started = [start(common, 1, environment)]
        try:
            # It prints nothing that a pipe would show in time; a client that comes too early is refused at once.
            for _ in range(20):
                time.sleep(0.2)
                client = start(["127.0.0.1", *common], 0, environment)
                started.append(client)
                lines = client.communicate(timeout=LIMIT)[0].splitlines()
                if client.returncode == 0 or started[0].poll() is not None:
                    break
        except subprocess.TimeoutExpired:
            sys.exit(f"ucx_perftest: no end after {LIMIT} s")
        finally:
            # They would keep this script's pipes open, and its caller waiting.
            for process in started:
                process.kill()
                process.wait()
    # A line each: number, iterations, percentile, average and overall latency in us, bandwidths in MB/s, rates.
    for line in lines:
        values = line.split(",")
        if len(values) != 9 or not values[0].isdigit():
            continue
        name, size, unit, *_ = TESTS[int(values[0])]
        value = {"us": float(values[4]), "Mop/s": float(values[8]) / 1e6, "MB/s": float(values[6]) * 1.048576}[unit]
        print(name, size, 1, f"{value:.6g}", unit)
    return client.returncode


if __name__ == "__main__":
    sys.exit(main())
