//! How schedules end: done, failed, or because a rank is gone.

use plugin_api::Status;

use super::engine::State;
use super::error::CommError;
use super::matching::{Expected, Key};
use super::scope::Scope;
use crate::job::Job;

impl State {
    /// Ends a schedule.
    pub(super) fn finish(&mut self, index: usize, outcome: Result<(), CommError>) {
        let failed = outcome.is_err();
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        if schedule.outcome.is_some() {
            return;
        }
        if let Err(error) = outcome {
            if !schedule.copies.is_idle() {
                schedule.copies.failed.get_or_insert(error);
                return;
            }
            if schedule.outstanding > 0 {
                // Gets may be under way, here and at peers, and may never end.
                schedule.plan.lose();
            }
            schedule.outcome = Some(Err(error));
        } else {
            schedule.outcome = Some(outcome);
        }
        let key = schedule.key;
        schedule.scope.leave();
        let waker = schedule.waker.take();
        let detached = schedule.detached;
        self.ended = self.ended.wrapping_add(1);
        self.running.retain(|running| *running != index);
        self.woken.extend(waker);
        if failed {
            self.forget(index, key);
        }
        if detached {
            self.vacate(index);
        }
    }

    /// Takes a schedule that failed out of everything.
    fn forget(&mut self, index: usize, key: Key) {
        for queue in &mut self.queues {
            queue.forget(index, key);
        }
        for place in &mut self.offers {
            if let Some(offered) = place.take_if(|o| o.schedule == index) {
                let queue = &mut self.queues[offered.to];
                queue.offered = queue.offered.saturating_sub(1);
            }
        }
        for fetch in &mut self.fetches {
            if fetch.schedule == Some(index) {
                fetch.schedule = None;
            }
        }
    }

    pub(super) fn wrong_length(&mut self, from: usize, expected: &Expected, found: usize) {
        let Some(schedule) = self.schedule(expected.schedule) else {
            return;
        };
        let error = CommError::Length {
            call: schedule.call,
            rank: schedule.scope.rank_of(from).unwrap_or(from),
            sent: found,
            wanted: expected.len,
        };
        self.finish(expected.schedule, Err(error));
    }

    /// The error of a schedule that cannot reach a job rank. Its scope is of no use any more, and the rank, should it wait
    /// for this one, is told so.
    pub(super) fn peer_failed(
        &mut self,
        index: usize,
        job_rank: usize,
        status: Status,
    ) -> CommError {
        self.mailbox.give_up(job_rank);
        let Some(schedule) = self.schedule(index) else {
            return CommError::Peer {
                call: "collective",
                rank: job_rank,
                reason: status.to_string(),
            };
        };
        let error = CommError::Peer {
            call: schedule.call,
            rank: schedule.scope.rank_of(job_rank).unwrap_or(job_rank),
            reason: status.to_string(),
        };
        schedule.scope.break_off(&error.to_string());
        error
    }

    /// Ends every schedule that a job rank takes part in.
    pub(super) fn lost(&mut self, job_rank: usize, status: Status) {
        self.mailbox.give_up(job_rank);
        for index in self.running.clone() {
            let takes_part = self
                .schedule(index)
                .is_some_and(|schedule| schedule.scope.rank_of(job_rank).is_some());
            if takes_part {
                let error = self.peer_failed(index, job_rank, status);
                self.finish(index, Err(error));
            }
        }
        self.queues[job_rank].outgoing.clear();
    }

    /// Looks after the ranks of a scope for someone who waits outside of schedules.
    pub(super) fn check(
        &mut self,
        call: &'static str,
        job: &Job,
        scope: &Scope,
    ) -> Result<(), CommError> {
        if let Some(failure) = concerned(job, scope) {
            scope.break_off(&failure);
            let reason = failure;
            return Err(CommError::Job { call, reason });
        }
        for rank in (0..scope.size()).filter(|rank| *rank != scope.rank()) {
            let job_rank = scope.job_rank(rank);
            if let Some(Err(status)) = self.mailbox.look(job_rank) {
                let reason = status.to_string();
                let error = CommError::Peer { call, rank, reason };
                scope.break_off(&error.to_string());
                self.lost(job_rank, status);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Looks after every rank that a running schedule needs.
    pub(super) fn look(&mut self, job: &Job) {
        let mut ranks: Vec<usize> = Vec::new();
        for index in self.running.clone() {
            let Some(schedule) = self.schedule(index) else {
                continue;
            };
            let me = schedule.scope.rank();
            let members = schedule.scope.members();
            let others = members.iter().enumerate().filter(|(rank, _)| *rank != me);
            ranks.extend(others.map(|(_, job_rank)| *job_rank as usize));
            if let Some(reason) = concerned(job, &schedule.scope) {
                let call = schedule.call;
                schedule.scope.break_off(&reason);
                self.finish(index, Err(CommError::Job { call, reason }));
            }
        }
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            if let Some(Err(status)) = self.mailbox.look(rank) {
                self.lost(rank, status);
            }
        }
    }
}

/// What the job reports that a scope cannot live with.
fn concerned(job: &Job, scope: &Scope) -> Option<String> {
    let member = |proc: u64| scope.members().iter().any(|m| u64::from(*m) == proc);
    Some(job.failed_among(member)?.to_string())
}
