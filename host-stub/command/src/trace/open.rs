//! Waits and calls that were recorded before they ended.

use std::collections::HashSet;

use host_stub::trace::Record;

/// Keeps the last record of each interval that never ended, and drops the records of ended intervals. In a whole trace all
/// intervals ended, although the record of an end may be lost. The records are ordered by their beginnings; of records with the
/// same beginning the longest comes first.
pub(super) fn drop_ended(records: &mut Vec<Record>, is_whole: bool) {
    let key = |r: &Record| (r.kind, r.begin);
    let open: HashSet<_> = records.iter().filter(|r| r.open).map(key).collect();
    let ended = |r: &&Record| !r.open && open.contains(&key(r));
    let mut known: HashSet<_> = records.iter().filter(ended).map(key).collect();
    records.retain(|r| !r.open || !is_whole && known.insert(key(r)));
}

#[cfg(test)]
mod tests {
    use host_stub::trace::Kind;

    use super::*;

    #[test]
    fn the_last_record_counts_unless_there_is_an_end() {
        let of = |kind, begin, duration, open| Record {
            open,
            ..Record::new(kind, begin, duration)
        };
        let records = [
            of(Kind::Call, 5, 20, true),
            of(Kind::Wait, 5, 10, true),
            of(Kind::Call, 5, 10, true),
            // The record of its end was read before the record of the open interval.
            of(Kind::Wait, 5, 9, false),
            of(Kind::Call, 7, 18, true),
        ];
        let (mut killed, mut whole) = (records.to_vec(), records.to_vec());
        drop_ended(&mut killed, false);
        assert_eq!(killed, [records[0], records[3], records[4]]);
        drop_ended(&mut whole, true);
        assert_eq!(whole, [records[3]]);
    }
}
