//! The kernel's counters on a host.

/// Packets that an interface has sent.
pub(crate) fn packets(interface: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap();
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    let (_, counts) = lines.find(|(name, _)| name.trim() == interface).unwrap();
    // The tenth column is the number of packets sent.
    counts.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// The established TCP connections of the rank's host; each is a row of the kernel's table.
pub(crate) fn connections() -> Vec<Vec<String>> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect());
    rows.filter(|columns: &Vec<String>| columns[3] == "01")
        .collect()
}

/// Whether TCP has retransmitted data, or tried to send data without a route.
pub(crate) fn repeats() -> bool {
    connections().iter().any(|columns| {
        let (repeated, probed) = (&columns[6], &columns[8]);
        repeated != "00000000" || probed != "0"
    })
}
