//! What the ranks of a collective have to agree on.

/// What a rank is about to do; plain words, the same on every rank that does the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Which collective; 0 is none.
    pub(crate) call: u64,
    /// Elements per rank, or a digest of the counts.
    pub(crate) count: u64,
    /// The number of the element type, or 0 where there is none.
    pub(crate) datatype: u64,
    /// The number of the operation, or 0.
    pub(crate) op: u64,
    /// The root plus one, or 0.
    pub(crate) root: u64,
}

/// Says what a field of a signature stands for.
pub(crate) type Describe = fn(&Signature, Field) -> String;

impl Signature {
    /// Names what differs, and which ranks have which value.
    pub(super) fn differences(all: &[Signature], describe: Describe) -> Option<String> {
        let mut parts = Vec::new();
        for field in Field::ALL {
            let values: Vec<u64> = all.iter().map(|signature| field.of(signature)).collect();
            if values.windows(2).all(|pair| pair[0] == pair[1]) {
                continue;
            }
            // Grouped by value, in the order of the first rank that has it.
            let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
            for (rank, value) in values.iter().enumerate() {
                match groups.iter_mut().find(|(known, _)| known == value) {
                    Some((_, ranks)) => ranks.push(rank),
                    None => groups.push((*value, vec![rank])),
                }
            }
            let said: Vec<String> = groups
                .iter()
                .map(|(_, ranks)| {
                    let value = describe(&all[ranks[0]], field);
                    let names: Vec<String> = ranks.iter().map(usize::to_string).collect();
                    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
                    format!("{value} at {word} {}", names.join(", "))
                })
                .collect();
            parts.push(format!("{}: {}", field.name(), said.join("; ")));
            if field == Field::Call {
                // The rest means different things.
                break;
            }
        }
        (!parts.is_empty()).then(|| parts.join(". "))
    }
}

/// A part of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Call,
    Count,
    Datatype,
    Op,
    Root,
}

impl Field {
    const ALL: [Field; 5] = [
        Field::Call,
        Field::Count,
        Field::Datatype,
        Field::Op,
        Field::Root,
    ];

    const fn name(self) -> &'static str {
        match self {
            Field::Call => "the call differs",
            Field::Count => "the count differs",
            Field::Datatype => "the datatype differs",
            Field::Op => "the operation differs",
            Field::Root => "the root differs",
        }
    }

    pub(crate) const fn of(self, signature: &Signature) -> u64 {
        match self {
            Field::Call => signature.call,
            Field::Count => signature.count,
            Field::Datatype => signature.datatype,
            Field::Op => signature.op,
            Field::Root => signature.root,
        }
    }
}
