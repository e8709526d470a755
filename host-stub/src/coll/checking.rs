//! The checking mode: before each collective the ranks tell each other what they are about to do.

use super::{CollArgs, Collective};
use crate::base::{ElementType, ReduceOp};
use crate::schedule::{Field, Signature};

/// Stands beside the call of a rank whose arguments cannot be.
const REFUSED: u64 = 1 << 32;

/// Stands beside a nonblocking call, which a blocking one does not match.
const STARTED: u64 = 1 << 33;

/// How a collective is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Blocking,
    Nonblocking,
}

/// What a rank is about to do; `refused` when it will not, for its own arguments' sake.
pub(super) fn signature(
    collective: Collective,
    args: &CollArgs<'_>,
    (form, refused): (Form, bool),
) -> Signature {
    let call = (collective as u64 + 1)
        | if refused { REFUSED } else { 0 }
        | if form == Form::Nonblocking {
            STARTED
        } else {
            0
        };
    if collective == Collective::Barrier || refused {
        return Signature {
            call,
            ..Signature::default()
        };
    }
    let count = match collective {
        Collective::ReduceScatter if args.counts.is_empty() => args.count as u64,
        Collective::ReduceScatter => digest(args.counts),
        Collective::Allgatherv => digest(args.recv_blocks.counts),
        // Each rank knows its own blocks only.
        _ if collective.is_listed() => 0,
        _ => args.count as u64,
    };
    Signature {
        call,
        count,
        datatype: args.datatype.number(),
        op: if collective.reduces() {
            args.op.number()
        } else {
            0
        },
        root: if collective.is_rooted() {
            args.root as u64 + 1
        } else {
            0
        },
    }
}

/// The count that all have, or a digest of counts that differ (FNV-1a): other counts of the same sum
/// are other counts.
fn digest(counts: &[usize]) -> u64 {
    let first = counts.first().copied().unwrap_or(0);
    if counts.iter().all(|count| *count == first) {
        return first as u64;
    }
    let digest = counts
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, count| {
            (digest ^ *count as u64).wrapping_mul(0x0000_0100_0000_01b3)
        });
    digest | 1 << 63
}

/// What a field stands for.
pub(super) fn describe(signature: &Signature, field: Field) -> String {
    let value = field.of(signature);
    match field {
        Field::Call => {
            let index = (value & !(REFUSED | STARTED)).wrapping_sub(1) as usize;
            let name = Collective::ALL
                .get(index)
                .map_or("an unknown call", |c| c.name());
            let form = if value & STARTED != 0 { "i" } else { "" };
            let wrong = match value & REFUSED {
                0 => "",
                _ => " with wrong arguments",
            };
            format!("{form}{name}{wrong}")
        }
        Field::Count if value >> 63 == 1 => format!("counts with the digest {value:#x}"),
        Field::Count => format!("{value} elements"),
        Field::Datatype => {
            ElementType::of_number(value).map_or("none".to_owned(), |element| element.to_string())
        }
        Field::Op => ReduceOp::name_of(value).to_owned(),
        Field::Root => match value.checked_sub(1) {
            Some(root) => format!("root {root}"),
            None => "no root".to_owned(),
        },
    }
}
