//! How schedules end: done, failed, or because a rank is gone.

use std::sync::Arc;

use plugin_api::Status;

use super::engine::State;
use super::error::{CommError, CommResult};
use super::matching::{Expected, Key};
use super::scope::Scope;
use crate::job::Job;

/// A call that waits for the ranks of a scope outside of schedules: its name, and the scope.
pub(super) type Waiter<'a> = (&'static str, &'a Arc<Scope>);

impl State {
    /// Ends a schedule that cannot go on. Its scope is of no use any more: others wait for what it does not send, and what
    /// they send comes when nobody waits for it.
    pub(super) fn finish(&mut self, index: usize, error: CommError) {
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        if schedule.outcome.is_some() {
            return;
        }
        let (scope, reason) = (Arc::clone(&schedule.scope), error.to_string());
        if schedule.copies.is_idle() {
            if schedule.outstanding > 0 {
                // Gets may be under way, here and at peers, and may never end.
                schedule.plan.lose();
            }
            self.close(index, Err(error));
        } else {
            schedule.copies.ending.get_or_insert(error);
        }
        self.break_off(&scope, &reason);
    }

    /// Ends a schedule of which nothing is left to do.
    pub(super) fn close(&mut self, index: usize, outcome: CommResult<()>) {
        let failed = outcome.is_err();
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        schedule.outcome = Some(outcome);
        let key = schedule.key;
        schedule.scope.leave();
        let waker = schedule.waker.take();
        self.ended = self.ended.wrapping_add(1);
        self.running.retain(|running| *running != index);
        self.woken.extend(waker);
        if failed {
            self.forget(index, key);
        }
    }

    /// Makes a scope of no use, here and, by a flag that their looks find, at its other ranks. Nothing of it is under way
    /// afterwards. Its context stays in use for ever, since nobody frees it in good order, so what others still send is
    /// taken for nothing else.
    pub(super) fn break_off(&mut self, scope: &Arc<Scope>, reason: &str) {
        // Of one rank alone nobody waits for another.
        if scope.size() < 2 || !scope.break_off(reason) {
            return;
        }
        if let Some(flag) = scope.flag() {
            self.mailbox.raise(flag);
            self.queues.iter_mut().for_each(|q| q.forget_all(flag));
        }
        for index in self.running.clone() {
            if let Some(schedule) = self.schedule(index)
                && Arc::ptr_eq(&schedule.scope, scope)
            {
                let (call, reason) = (schedule.call, reason.to_owned());
                self.finish(index, CommError::Broken { call, reason });
            }
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
        self.finish(expected.schedule, error);
    }

    /// The error of a schedule that cannot reach a job rank. The rank, should it wait for this one, is told so.
    pub(super) fn peer_failed(
        &mut self,
        index: usize,
        job_rank: usize,
        status: Status,
    ) -> CommError {
        self.mailbox.give_up(job_rank);
        match self.schedule(index) {
            Some(schedule) => gone(schedule.call, &schedule.scope, job_rank, status),
            None => CommError::Peer {
                call: "collective",
                rank: job_rank,
                reason: status.to_string(),
            },
        }
    }

    /// The error of a schedule whose memory, which a job rank was to read or to fill, could not be registered. Of that, the other
    /// ranks of its scope learn by the flag, and other scopes go on; where there is no flag, that rank is told alone.
    pub(super) fn not_registered(
        &mut self,
        index: usize,
        job_rank: usize,
        size: usize,
        status: Status,
    ) -> CommError {
        let schedule = self.schedule(index);
        let (call, flag) = schedule.map_or(("collective", None), |s| (s.call, s.scope.flag()));
        if flag.is_none() {
            self.mailbox.give_up(job_rank);
        }
        let reason = status.to_string();
        CommError::Registration { call, size, reason }
    }

    /// Ends every schedule that a job rank takes part in.
    pub(super) fn lost(&mut self, job_rank: usize, status: Status) {
        self.mailbox.give_up(job_rank);
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

    /// Ends every schedule of a communicator that a job rank has broken off.
    fn told(&mut self, job_rank: usize, flag: u16) {
        for index in self.running.clone() {
            if let Some(schedule) = self.schedule(index)
                && schedule.scope.flag() == Some(flag)
                && let Some(error) = broken_off(schedule.call, &schedule.scope, job_rank)
            {
                self.finish(index, error);
            }
        }
    }

    /// Checks every rank that a running schedule needs, and the ranks that `waiter` waits for. The error for `waiter` is
    /// returned. `concerned` returns the failure that the job reports of a scope's ranks, if there is one.
    pub(super) fn look(
        &mut self,
        concerned: &dyn Fn(&Scope) -> Option<String>,
        waiter: Option<Waiter<'_>>,
    ) -> CommResult<()> {
        let mut wanted: Vec<(usize, Option<u16>)> = Vec::new();
        let mut want = |scope: &Scope| {
            let flag = scope.flag();
            wanted.extend(scope.watched().map(|job_rank| (job_rank, flag)));
        };
        for index in self.running.clone() {
            let Some(schedule) = self.schedule(index) else {
                continue;
            };
            want(&schedule.scope);
            if let Some(reason) = concerned(&schedule.scope) {
                let call = schedule.call;
                self.finish(index, CommError::Job { call, reason });
            }
        }
        let mut outcome = Ok(());
        if let Some((call, scope)) = waiter {
            want(scope);
            let reason = concerned(scope);
            outcome = reason.map_or(Ok(()), |reason| Err(CommError::Job { call, reason }));
        }
        wanted.sort_unstable();
        wanted.dedup();
        for of_one in wanted.chunk_by(|a, b| a.0 == b.0) {
            let job_rank = of_one[0].0;
            let flags: Vec<u16> = of_one.iter().filter_map(|(_, flag)| *flag).collect();
            let found = self.mailbox.look(job_rank, &flags);
            let error = waiter.and_then(|(call, scope)| match found {
                Some(Err(status)) => {
                    scope.rank_of(job_rank)?;
                    Some(gone(call, scope, job_rank, status))
                }
                Some(Ok(flag)) if flag.is_some() && flag == scope.flag() => {
                    broken_off(call, scope, job_rank)
                }
                _ => None,
            });
            outcome = outcome.and(error.map_or(Ok(()), Err));
            match found {
                Some(Err(status)) => self.lost(job_rank, status),
                Some(Ok(Some(flag))) => self.told(job_rank, flag),
                _ => {}
            }
        }
        if let (Err(error), Some((_, scope))) = (&outcome, waiter) {
            self.break_off(scope, &error.to_string());
        }
        outcome
    }
}

/// A rank of a scope cannot be reached.
fn gone(call: &'static str, scope: &Scope, job_rank: usize, status: Status) -> CommError {
    CommError::Peer {
        call,
        rank: scope.rank_of(job_rank).unwrap_or(job_rank),
        reason: status.to_string(),
    }
}

/// A rank of such a scope cannot go on there. None for any other rank: it has the number for another communicator.
fn broken_off(call: &'static str, scope: &Scope, job_rank: usize) -> Option<CommError> {
    let rank = scope.rank_of(job_rank)?;
    let reason = format!("rank {rank} cannot go on there; its own error says why");
    Some(CommError::Broken { call, reason })
}

/// What the job reports that a scope cannot live with.
pub(super) fn concerned(job: &Job, scope: &Scope) -> Option<String> {
    let member = |proc: u64| scope.members().iter().any(|m| u64::from(*m) == proc);
    Some(job.failed_among(member)?.to_string())
}
