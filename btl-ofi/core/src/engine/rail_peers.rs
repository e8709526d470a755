//! Peers on further rails: connects and releases them on each rail.

use crate::core::failures::Reporting;
use crate::detector::Cause;
use crate::engine::transport::Transport;
use crate::peer::address::Blob;
use crate::peer::networks::pair;
use crate::peer::rails::{Track, Tracks};
use plugin_api::Status;
use std::sync::PoisonError;

impl Transport {
    /// Finds the paths to a peer over further rails. Each rail of this process leads to a rail of the peer on the same
    /// network. If addresses are no IP addresses, a rail leads to the peer's rail with the same number.
    pub(crate) fn connect_rails(&self, proc: u64, peer: &Blob) {
        if self.rails.is_empty() || peer.rails.is_empty() {
            return;
        }
        let networks_of = |rail: &Vec<u8>| Blob::decode(rail).map(|blob| blob.networks);
        let mut tracks = Tracks::default();
        let rails = self.rails.iter();
        let own: Vec<_> = rails.map(|rail| rail.node.networks.endpoint).collect();
        let theirs = peer.rails.iter().map(networks_of);
        let theirs: Vec<_> = theirs.map(Result::unwrap_or_default).collect();
        let pairs = pair(&self.node.networks, &own, &theirs);
        for ((number, rail), theirs) in self.rails.iter().enumerate().zip(pairs) {
            let Some(theirs) = theirs else {
                continue;
            };
            match rail.connect(&peer.rails[theirs], proc) {
                Ok(endpoint) => {
                    tracks[number] = Some(Track {
                        rail: number,
                        theirs,
                        endpoint,
                    });
                }
                Err(e) => tracing::info!("{}{e}", rail.failures.of),
            }
        }
        if tracks.iter().all(Option::is_none) {
            tracing::info!("process {proc} has no further rail on a network of this process");
            return;
        }
        let mut all = self
            .rails
            .tracks
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        all.insert(proc, tracks);
    }

    /// Releases a peer on the rails. The caller [took](Rails::take_tracks) the peer's `tracks` from the table. If
    /// operations are `outstanding`, the peer fails on the rails.
    pub(crate) fn disconnect_rails(&self, tracks: Option<Tracks>, outstanding: bool) {
        for track in tracks.into_iter().flatten().flatten() {
            let Some(rail) = self.rails.get(track.rail) else {
                continue;
            };
            if outstanding {
                let why = "it was released with operations outstanding";
                let _reporting = Reporting::begin(&rail.failures);
                rail.peer_failed(track.endpoint, Cause::Released, Status::UNREACH, why);
                // SAFETY: endpoints live until the transport closes.
                let peer = unsafe { track.endpoint.as_ref() };
                if let Err(e) = rail.remove_address(peer) {
                    tracing::warn!("{}removing process {}: {e}", rail.failures.of, peer.proc);
                }
            } else {
                // SAFETY: `connect_rails` connected the endpoint, and only the removed table entry
                // named it.
                unsafe { rail.disconnect(track.endpoint) };
            }
        }
    }
}
