//! Endpoint addresses.

const MAGIC: u64 = 0x6c61_625f_6164_6472;

/// An endpoint's address: the addresses of the data that peers read in its process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    magic: u64,
    pub(crate) pid: u64,
    /// Address of the list of regions in that process.
    pub(crate) regions: u64,
    pub(crate) domain: u64,
    /// Address of the inbox of that process.
    pub(crate) inbox: u64,
    /// Address of the endpoint's mailbox, or 0.
    pub(crate) mailbox: u64,
    /// The mailbox's owner number while it belongs to the endpoint.
    pub(crate) endpoint: u64,
}

impl Name {
    /// An address of this process; `mailbox` is the address of the endpoint's mailbox and its owner number, or
    /// zeroes.
    pub(crate) fn of_process(domain: u64, regions: u64, inbox: u64, mailbox: (u64, u64)) -> Name {
        Name {
            magic: MAGIC,
            pid: u64::from(std::process::id()),
            regions,
            domain,
            inbox,
            mailbox: mailbox.0,
            endpoint: mailbox.1,
        }
    }

    /// Whether this is an address of this provider.
    pub(crate) fn is_ours(&self) -> bool {
        self.magic == MAGIC
    }
}
