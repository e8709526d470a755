//! The rows of docs/seeds.md, with the tests that are their evidence. `tests/tests/seeds.rs`
//! compares these rows with the page.

/// Tests with the numbers of their rows. A name that ends in `/` stands for the tests whose names have that part.
const ROWS: &[(&str, &[&str])] = &[
    ("coll/", &["001.5"]),
    ("crt/", &["004.29"]),
    ("crt/conditions", &["004.24"]),
    ("crt/signals", &["004.25"]),
    ("crt/threads", &["004.5"]),
    (
        "device/",
        &["000.4", "004.35", "004.41", "004.47", "004.57"],
    ),
    ("device/attached-without-a-number", &["004.57"]),
    ("device/collectives-under-way", &["004.41"]),
    ("device/copies-that-fail", &["000.15"]),
    ("device/level", &["004.38"]),
    ("device/locations", &["004.45", "004.50", "004.51"]),
    ("device/memory-nobody-told-of", &["004.45"]),
    ("device/mixed-iovecs", &["000.11", "000.13", "000.14"]),
    ("device/mixed-layouts", &["000.13"]),
    (
        "device/numbers-that-do-not-match",
        &["004.40", "004.44", "004.55"],
    ),
    ("device/one-rank-on-a-device", &["004.56"]),
    (
        "device/overlapping-windows",
        &["004.40", "004.56", "004.58"],
    ),
    ("device/started-at-level-3", &["004.36", "004.59"]),
    ("device/started-by-a-kernel", &["004.36"]),
    ("device/started-by-the-device", &["004.36", "004.37"]),
    ("device/straddling-buffers", &["004.39"]),
    ("errors/", &["003.1"]),
    ("hooks/failure_on_one_rank", &["003.12"]),
    ("hooks/order_and_parameters", &["003.12"]),
    ("hooks/put_on_many_nodes_after_one_smp", &["003.9"]),
    ("hooks/replace_in_one_window_only", &["003.11", "003.12"]),
    ("mixed/", &["003.6"]),
    ("shm/", &["003.6"]),
    ("tables/names", &["003.3"]),
    ("threads/put_get", &["004.2"]),
    ("threads/requests", &["004.6"]),
];

/// The rows of a test; its name may begin with the name of its pass.
pub(super) fn of(name: &str) -> Vec<&'static str> {
    let is_of = |known: &str| match known.ends_with('/') {
        true => name.starts_with(known) || name.contains(&format!("/{known}")),
        false => name == known || name.ends_with(&format!("/{known}")),
    };
    let rows = ROWS.iter().filter(|(known, _)| is_of(known));
    let mut rows: Vec<_> = rows.flat_map(|(_, rows)| *rows).copied().collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
