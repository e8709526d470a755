//! The ends of schedules: done, failed, or ended because a rank is dead.

use std::sync::Arc;

use plugin_api::Status;

use super::engine::State;
use super::error::{CommError, CommResult};
use super::matching::{Expected, Key};
use super::scope::Scope;
use crate::job::Job;
use crate::mailbox::Found;

/// A failure that the job reports: the rank, if the failure is a rank's, and the reason.
pub(super) type Concern = (Option<usize>, String);

/// A call that waits for the ranks of a scope outside of schedules: its name, and the scope.
pub(super) type Waiter<'a> = (&'static str, &'a Arc<Scope>);

impl State {
    /// Ends a schedule that cannot go on. The rank that the error names is the cause; if the error
    /// names no rank, the cause is this rank.
    pub(super) fn finish(&mut self, index: usize, error: CommError) {
        let culprit = match (&error, self.schedule(index)) {
            (CommError::Peer { rank, .. }, Some(schedule)) => Some(schedule.scope.job_rank(*rank)),
            _ => None,
        };
        self.finish_by(index, error, culprit);
    }

    /// Ends a schedule that cannot go on. `culprit` is the job rank that caused the failure, or `None` if the cause is
    /// this rank. The schedule's scope can no longer be used: other ranks wait for messages that this rank does not send,
    /// and this rank receives none of their messages.
    fn finish_by(&mut self, index: usize, error: CommError, culprit: Option<usize>) {
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        if schedule.outcome.is_some() {
            return;
        }
        let (scope, reason) = (Arc::clone(&schedule.scope), error.to_string());
        if schedule.outstanding > 0 {
            // Gets may be outstanding, here and at peers, and may never end.
            schedule.plan.lose();
        }
        self.close(index, Err(error));
        self.break_off(&scope, &reason, culprit);
    }

    /// Ends a schedule that has no steps left.
    pub(super) fn close(&mut self, index: usize, outcome: CommResult<()>) {
        let failed = outcome.is_err();
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        schedule.outcome = Some(outcome);
        let key = schedule.key;
        schedule.scope.leave();
        self.ended = self.ended.wrapping_add(1);
        self.running.retain(|running| *running != index);
        if failed {
            self.forget(index, key);
        }
    }

    /// Closes a scope. When its other ranks check, they get the rank that is the cause. No schedule of the scope runs
    /// afterwards. The scope's context is never reused, so late messages of other ranks cannot be mistaken for messages of
    /// another scope.
    pub(super) fn break_off(&mut self, scope: &Arc<Scope>, reason: &str, culprit: Option<usize>) {
        // In a scope of one rank, no other rank waits.
        if scope.size() < 2 || !scope.break_off(reason) {
            return;
        }
        for job_rank in scope.watched() {
            self.mailbox.give_up(job_rank, culprit);
        }
        let context = scope.context();
        self.broken.push(context);
        self.queues.iter_mut().for_each(|q| q.forget_all(context));
        for index in self.running.clone() {
            if let Some(schedule) = self.schedule(index)
                && Arc::ptr_eq(&schedule.scope, scope)
            {
                let (call, reason) = (schedule.call, reason.to_owned());
                self.finish_by(index, CommError::Broken { call, reason }, culprit);
            }
        }
    }

    /// Removes a failed schedule from all lists.
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
        self.finish(expected.schedule, error);
    }

    /// The error of a schedule that cannot reach a job rank. The job rank is notified, in case it waits for
    /// this rank.
    pub(super) fn peer_failed(
        &mut self,
        index: usize,
        job_rank: usize,
        status: Status,
    ) -> CommError {
        self.mailbox.give_up(job_rank, None);
        match self.schedule(index) {
            Some(schedule) => gone(schedule.call, &schedule.scope, job_rank, status),
            None => CommError::Peer {
                call: "collective",
                rank: job_rank,
                reason: status.to_string(),
            },
        }
    }

    /// The error of a schedule that could not register its memory, which another rank was to read.
    pub(super) fn not_registered(
        &mut self,
        index: usize,
        size: usize,
        status: Status,
    ) -> CommError {
        let call = self.schedule(index).map_or("collective", |s| s.call);
        let reason = status.to_string();
        CommError::Registration { call, size, reason }
    }

    /// Ends every schedule that a job rank takes part in.
    pub(super) fn lost(&mut self, job_rank: usize, status: Status) {
        self.mailbox.give_up(job_rank, None);
        for index in self.running.clone() {
            if let Some(schedule) = self.schedule(index)
                && schedule.scope.rank_of(job_rank).is_some()
            {
                let error = self.peer_failed(index, job_rank, status);
                self.finish(index, error);
            }
        }
        self.queues[job_rank].outgoing.clear();
    }

    /// Ends every schedule that includes both the job rank that gave up and the rank that it gave up
    /// for.
    fn told(&mut self, job_rank: usize, culprit: usize) {
        for index in self.running.clone() {
            if let Some(schedule) = self.schedule(index)
                && let Some(error) = gave_up(schedule.call, &schedule.scope, job_rank, culprit)
            {
                self.finish_by(index, error, Some(culprit));
            }
        }
    }

    /// Checks every rank that a running schedule needs, and the ranks that `waiter` waits for. The error for `waiter` is
    /// returned. `concerned` returns the failure that the job reports about a scope's ranks, if there is one.
    pub(super) fn look(
        &mut self,
        concerned: &dyn Fn(&Scope) -> Option<Concern>,
        waiter: Option<Waiter<'_>>,
    ) -> CommResult<()> {
        let mut wanted: Vec<usize> = Vec::new();
        for index in self.running.clone() {
            let Some(schedule) = self.schedule(index) else {
                continue;
            };
            wanted.extend(schedule.scope.watched());
            if let Some((culprit, reason)) = concerned(&schedule.scope) {
                let call = schedule.call;
                self.finish_by(index, CommError::Job { call, reason }, culprit);
            }
        }
        let mut failed: Option<(CommError, Option<usize>)> = None;
        if let Some((call, scope)) = waiter {
            wanted.extend(scope.watched());
            failed = concerned(scope)
                .map(|(culprit, reason)| (CommError::Job { call, reason }, culprit));
        }
        wanted.sort_unstable();
        wanted.dedup();
        for job_rank in wanted {
            let found = self.mailbox.look(job_rank).unwrap_or(Found::Nothing);
            if let (None, Some((call, scope))) = (&failed, waiter) {
                failed = match found {
                    Found::Gone(status) if scope.rank_of(job_rank).is_some() => {
                        Some((gone(call, scope, job_rank, status), Some(job_rank)))
                    }
                    Found::GaveUp(culprit) => {
                        gave_up(call, scope, job_rank, culprit).map(|error| (error, Some(culprit)))
                    }
                    _ => None,
                };
            }
            match found {
                Found::Gone(status) => self.lost(job_rank, status),
                Found::GaveUp(culprit) => self.told(job_rank, culprit),
                Found::Nothing => {}
            }
        }
        match (failed, waiter) {
            (Some((error, culprit)), Some((_, scope))) => {
                self.break_off(scope, &error.to_string(), culprit);
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

/// The error of a call in a scope with an unreachable rank.
fn gone(call: &'static str, scope: &Scope, job_rank: usize, status: Status) -> CommError {
    CommError::Peer {
        call,
        rank: scope.rank_of(job_rank).unwrap_or(job_rank),
        reason: status.to_string(),
    }
}

/// The error of a call in a scope one of whose ranks has given up all collectives with `culprit`. `None`
/// if the rank or `culprit` is not in the scope.
fn gave_up(
    call: &'static str,
    scope: &Scope,
    job_rank: usize,
    culprit: usize,
) -> Option<CommError> {
    let (rank, culprit) = (scope.rank_of(job_rank)?, scope.rank_of(culprit)?);
    let reason = if rank == culprit {
        format!("rank {rank} cannot go on; its own error says why")
    } else {
        format!("rank {culprit} cannot be reached, says rank {rank}")
    };
    Some(CommError::Broken { call, reason })
}

/// A failure that the job reports and that makes the scope unusable.
pub(super) fn concerned(job: &Job, scope: &Scope) -> Option<Concern> {
    let member = |proc: u64| scope.members().iter().any(|m| u64::from(*m) == proc);
    let failure = job.failed_among(member)?;
    Some((failure.proc.map(|proc| proc as usize), failure.to_string()))
}
