//! Windows with each table of functions, and layers that replace functions of some.

mod hooks;
mod limits;
mod locks;
mod neighbours;
mod sharing;

use super::case::{Case, Context, Outcome, ensure};
use super::pass::{Pass, windows};
use host_stub::win::{Info, TableChoice, Window};
use neighbours::Neighbours;

/// The whole window suite over every table, and the tests of tables themselves.
pub(super) fn passes(ranks: usize) -> Vec<Pass> {
    let with = |table| Info::new().with_table(table);
    // Two pretended nodes, so that every rank has local and remote peers.
    let half = (ranks as u32).div_ceil(2).max(1);
    let mixed = with(TableChoice::Auto).with_ranks_per_node(half);
    let mut own = vec![Case::new("tables/names", names)];
    own.extend(hooks::cases());
    own.extend(sharing::cases());
    own.extend(locks::cases());
    vec![
        Pass::new(Info::new(), own),
        Pass::new(with(TableChoice::Auto), windows()).named("shm"),
        Pass::new(mixed, windows()).named("mixed"),
        Pass::new(with(TableChoice::Btl), windows()).named("btl"),
    ]
}

/// Windows get the requested tables; otherwise the passes would test other tables. Each table is tried over the ranks of each
/// node, and over the whole job if it has several nodes.
fn names(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    let half = (near.size as u32).div_ceil(2);
    let all = half == near.size as u32;
    let infos = [
        (Info::new(), "shm"),
        (Info::new().with_table(TableChoice::Shm), "shm"),
        (Info::new().with_table(TableChoice::Mixed), "mixed"),
        (
            Info::new().with_ranks_per_node(half),
            match half {
                _ if all => "shm",
                1 => "btl",
                _ => "mixed",
            },
        ),
        (Info::new().with_table(TableChoice::Btl), "btl"),
    ];
    let is = |window: Window, info: &Info, wanted: &str| {
        let found = window.table_name();
        window.free()?;
        ensure(found == wanted, || format!("{info:?} gave {found}"))
    };
    for (info, wanted) in infos {
        is(
            Window::allocate_with(&near.comm, 100, 1, &info)?,
            &info,
            wanted,
        )?;
    }
    if near.size < context.size {
        let nodes = (0..context.size).map(|rank| context.job.node(rank as u32));
        let nodes: std::collections::BTreeSet<u32> = nodes.collect();
        let alone = nodes.len() == context.size;
        for (info, wanted) in [
            (Info::new(), if alone { "btl" } else { "mixed" }),
            (Info::new().with_table(TableChoice::Btl), "btl"),
        ] {
            is(
                Window::allocate_with(context.job, 100, 1, &info)?,
                &info,
                wanted,
            )?;
        }
    }
    Ok(())
}
