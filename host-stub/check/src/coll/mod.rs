//! The suite of collectives: every collective, blocking and nonblocking, for every type, operation, root
//! and many sizes, over communicators of several shapes, against a model that computes each rank's
//! result from the operands of all ranks.

mod flight;
mod lists;
mod model;
mod ops;
mod run;
mod shapes;

use plugin_api::Datatype;

use super::case::{Case, Context, Outcome};
use host_stub::coll::Collective;
use host_stub::win::Op;

use model::Call;
use run::Form;
use shapes::Shapes;

/// Elements per rank in the tests of sizes, for an 8-byte type: around the size of a message, of a
/// slot of the node layer, and of many of them.
const COUNTS: [usize; 14] = [
    0, 1, 2, 3, 13, 31, 110, 111, 112, 500, 1024, 2049, 9001, 40_000,
];

/// The counts that are tried with every root.
const ALL_ROOTS: [usize; 3] = [1, 111, 9001];

/// The tests of this suite.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for collective in Collective::ALL {
        for form in Form::ALL {
            let name = format!("{}{}", form.prefix(), collective.name());
            cases.push(Case::new(format!("coll/{name}/sizes"), move |context| {
                sizes(context, collective, form)
            }));
            cases.push(Case::new(format!("coll/{name}/types"), move |context| {
                types(context, collective, form)
            }));
            cases.push(Case::new(format!("coll/{name}/in-place"), move |context| {
                in_place(context, collective, form)
            }));
        }
    }
    cases.extend(flight::cases());
    cases
}

/// Every count, on every shape; some counts with every root.
fn sizes(context: &Context<'_>, collective: Collective, form: Form) -> Outcome {
    let shapes = Shapes::make(context)?;
    for comm in shapes.mine() {
        for count in COUNTS {
            let all_roots = collective.is_rooted() && ALL_ROOTS.contains(&count);
            let first = count % comm.size();
            let roots = if all_roots {
                0..comm.size()
            } else {
                first..first + 1
            };
            for root in roots {
                let call = Call {
                    collective,
                    count,
                    root,
                    datatype: Datatype::Int64,
                    op: Op::Sum,
                    in_place: false,
                    uneven: count % 2 == 1,
                };
                run::once(context, comm, &call, form)?;
            }
        }
    }
    shapes.free()
}

/// Every type, and every operation that is defined on it.
fn types(context: &Context<'_>, collective: Collective, form: Form) -> Outcome {
    let shapes = Shapes::make(context)?;
    // The world backwards, and its halves.
    for (index, comm) in shapes.mine().iter().enumerate().skip(1).take(2) {
        let mut random = context.common();
        for datatype in Datatype::ALL.iter().copied() {
            for op in ops::operations(collective, datatype) {
                let call = Call {
                    collective,
                    count: random.pick(&[1, 9, 130, 3000]),
                    root: (random.below(1 << 20) + index) % comm.size(),
                    datatype,
                    op,
                    in_place: false,
                    uneven: random.below(2) == 1,
                };
                run::once(context, comm, &call, form)?;
            }
        }
    }
    shapes.free()
}

/// Operands in the buffers of the results.
fn in_place(context: &Context<'_>, collective: Collective, form: Form) -> Outcome {
    let shapes = Shapes::make(context)?;
    for comm in shapes.mine() {
        for count in [0, 1, 77, 1500, 20_000] {
            let call = Call {
                collective,
                count,
                root: count % comm.size(),
                datatype: Datatype::Double,
                op: Op::Max,
                in_place: true,
                uneven: count == 77,
            };
            run::once(context, comm, &call, form)?;
        }
    }
    shapes.free()
}
