//! The entries from which a provider is chosen: libfabric's offers for our hints. The query is made in every form that
//! some provider needs.

use libfabric_sys as ffi;

use crate::base::error::{Doing, Error};
use crate::base::params::Options;
use crate::fabric::fids::{HintsMut, Info, InfoRef};
use crate::fabric::policy;
use crate::fabric::query::{
    CAPS, Calling, EVERY_MR, READ_ORDER, SUPPORTED_MR, api, has_atomics, is_old, query, write_hints,
};

/// The requirements for a provider beyond the hints that all queries share.
#[derive(Clone, Copy)]
struct Form {
    caps: u64,
    mr_mode: u32,
    op_flags: u64,
}

/// Entries that libfabric offers for our hints, in its order. Entries with atomics come first, then others with messages.
/// In each group, entries with the present mode bits come first, then entries of providers that support only the two old
/// modes.
pub(super) fn offers(options: &Options, calling: Calling) -> Result<Vec<Info>, Error> {
    let api = api()?;
    let mut found = Found::default();
    for form in forms() {
        let hints = |h: &mut HintsMut<'_>, order| {
            write_hints(h, options, calling, form.mr_mode, form.op_flags);
            *h.caps = form.caps;
            h.tx.msg_order = order;
            h.rx.msg_order = order;
        };
        let mut ordered: Vec<String> = Vec::new();
        for info in query(api, None, |h| hints(h, 0))?.iter() {
            let name = info.provider();
            if ordered.contains(&name) || !found.admits(info, form) {
                continue;
            }
            if is_old(form.mr_mode) && hides_modes(api, form.caps, &name)? {
                continue;
            }
            // A provider may have separate domains with and without order, and a query that requests no order returns
            // the one without. If the query for the order returns no entry, the first entry is refused with a reason.
            if policy::needs_read_order(info) {
                let list = query(api, Some(&name), |h| hints(h, READ_ORDER))?;
                let before = found.entries.len();
                for info in list.iter().filter(|i| i.provider() == name) {
                    found.keep(info, form)?;
                }
                if found.entries.len() > before {
                    ordered.push(name);
                    continue;
                }
            }
            found.keep(info, form)?;
        }
    }
    Ok(found.entries)
}

/// The forms, in the order of preference.
fn forms() -> impl Iterator<Item = Form> {
    let modes = [SUPPORTED_MR, ffi::FI_MR_BASIC, ffi::FI_MR_SCALABLE];
    let usual = CAPS
        .into_iter()
        .flat_map(move |caps| modes.map(|mode| (caps, mode)));
    // Request delivery-complete where the provider has it. A provider through which CMA writes the target's memory may
    // lack it.
    usual.flat_map(|(caps, mr_mode)| {
        [u64::from(ffi::FI_DELIVERY_COMPLETE), 0].map(|op_flags| Form {
            caps,
            mr_mode,
            op_flags,
        })
    })
}

/// Whether a provider that was offered under an old mode requires registration modes that the old mode does not report.
/// libfabric's common functions return the old mode in place of these (prov/util, `fi_alter_domain_attr`). A provider that
/// knows the present bits reports its requirements when the query allows every mode.
fn hides_modes(api: u32, caps: u64, name: &str) -> Result<bool, Error> {
    let list = query(api, Some(name), |h| {
        *h.caps = caps;
        *h.mode = u64::MAX;
        h.domain.mode = u64::MAX;
        h.domain.mr_mode = EVERY_MR as i32;
    })?;
    let told = SUPPORTED_MR | ffi::FI_MR_LOCAL | ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE;
    let modes = list.iter().filter(|i| i.provider() == name);
    let mut modes = modes.map(|i| i.domain_attr().mr_mode as u32).peekable();
    Ok(modes.peek().is_some() && modes.all(|mode| mode & !told != 0))
}

/// The entries found so far.
#[derive(Default)]
struct Found {
    entries: Vec<Info>,
}

impl Found {
    /// Whether an entry may be kept. A provider's entries are kept only if they have the attributes of its
    /// first entry.
    fn admits(&self, info: InfoRef<'_>, form: Form) -> bool {
        let name = info.provider();
        let atomics = form.caps == CAPS[0];
        if atomics && policy::forgoes_atomics(&name) {
            return false;
        }
        !self.entries.iter().any(|f| {
            f.get().provider() == name && {
                f.get().domain_attr().mr_mode != info.domain_attr().mr_mode
                    || f.get().tx_attr().op_flags != info.tx_attr().op_flags
                    || has_atomics(f.get()) != atomics
            }
        })
    }

    /// Keeps an entry if it is admitted.
    fn keep(&mut self, info: InfoRef<'_>, form: Form) -> Result<(), Error> {
        if self.admits(info, form) {
            let copy = info.duplicate();
            let copy = copy.doing(|| format!("copying the entry of {}", info.provider()))?;
            self.entries.push(copy);
        }
        Ok(())
    }
}
