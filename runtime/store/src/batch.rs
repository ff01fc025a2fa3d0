//! Cutting batches into what a store does in one step.

use gristmill_core::job::NewJob;

/// A claim and a look for overdue jobs bring no more bytes of jobs than this, unless the first one is larger. The store does nothing else
/// meanwhile, some milliseconds: 16 MiB kept the jobs of others waiting for 40 to 90.
pub(crate) const CLAIM_BYTES: usize = 2 << 20;

/// The room that an answer has for jobs: this many bytes, or one job that is larger.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    bytes: usize,
    is_empty: bool,
}

impl ByteBudget {
    pub(crate) const fn of(bytes: usize) -> Self {
        Self { bytes, is_empty: true }
    }

    /// Takes up room for a job. Returns whether there was any; the first job always has.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= self.bytes || self.is_empty;
        if has_room {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.is_empty = false;
        }
        has_room
    }
}

/// How many jobs of a tenant a store stores in one step, all of them or none.
pub const STEP_JOBS: usize = 1000;

/// How many bytes of jobs of a tenant a store stores in one step, all of them or none, unless a single job is larger.
pub const STEP_BYTES: usize = 4 << 20;

/// What one step of a push stores at most. The store does nothing else meanwhile.
pub(crate) const STEP: Weight = Weight { jobs: STEP_JOBS, bytes: STEP_BYTES };

/// Whether a push stores these jobs of one tenant in one step, all of them or none.
pub fn is_one_step(jobs: &[NewJob]) -> bool {
    parts(jobs, STEP, |job| Weight::of_new(job)).len() <= 1
}

/// How much work something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) jobs: usize,
    pub(crate) bytes: usize,
}

impl Weight {
    /// The weight of a single job that brings this many bytes.
    pub(crate) const fn of_job(bytes: usize) -> Self {
        Self { jobs: 1, bytes }
    }

    /// The weight of a new job as it is stored: names and lengths of its headers take up as much as what they say, at most.
    pub(crate) fn of_new(job: &NewJob) -> Self {
        let headers = usize::try_from(job.spec.header_bytes()).unwrap_or(usize::MAX);
        let bytes = job.spec.body.data.len().saturating_add(headers.saturating_mul(2));
        // To look for a job that it waits for costs as much as a job does.
        Self { jobs: 1 + job.spec.options.after.len(), bytes }
    }

    fn plus(self, more: Self) -> Self {
        Self { jobs: self.jobs.saturating_add(more.jobs), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

/// Cuts a batch into parts that weigh at most `most` each, with their weights. An item that weighs more is a part of its
/// own.
pub(crate) fn parts<T>(
    items: impl IntoIterator<Item = T>,
    most: Weight,
    weigh: impl Fn(&T) -> Weight,
) -> Vec<(Vec<T>, Weight)> {
    let mut parts: Vec<(Vec<T>, Weight)> = Vec::new();
    for item in items {
        let more = weigh(&item);
        let fits = |weight: Weight| weight.jobs <= most.jobs && weight.bytes <= most.bytes;
        match parts.last_mut() {
            Some((part, weight)) if fits(weight.plus(more)) => {
                part.push(item);
                *weight = weight.plus(more);
            }
            _ => parts.push((vec![item], more)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use gristmill_core::job::{Due, JobSpec, Payload};

    use super::*;

    #[test]
    fn room_is_for_so_many_bytes_or_for_one_job() {
        let taken = |jobs: &[usize]| {
            let mut room = ByteBudget::of(10);
            jobs.iter().take_while(|bytes| room.take(**bytes)).count()
        };
        assert_eq!(taken(&[5, 5, 1]), 2);
        assert_eq!(taken(&[11, 0]), 2);
        assert_eq!(taken(&[11, 1]), 1);
    }

    #[test]
    fn one_step_is_for_so_many_jobs_and_bytes_or_for_one_job() {
        let job = |bytes| {
            let body = Payload { data: vec![0; bytes], content_type: None };
            NewJob { spec: JobSpec::new("a".parse().unwrap(), body), due: Due::Now }
        };
        let jobs = |count: usize, bytes: usize| is_one_step(&vec![job(bytes); count]);
        assert!(jobs(0, 0) && jobs(STEP_JOBS, 0) && !jobs(STEP_JOBS + 1, 0));
        assert!(jobs(4, STEP_BYTES / 4) && !jobs(4, STEP_BYTES / 4 + 1));
        assert!(jobs(1, STEP_BYTES + 1));
    }

    #[test]
    fn parts_are_bounded_in_jobs_and_bytes() {
        let most = Weight { jobs: 3, bytes: 10 };
        let sizes = |bytes: &[usize]| -> Vec<usize> {
            let parts = parts(bytes, most, |bytes| Weight::of_job(**bytes));
            parts.iter().map(|(part, weight)| part.len().min(weight.jobs)).collect()
        };
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[1; 3]), [3]);
        assert_eq!(sizes(&[1; 4]), [3, 1]);
        assert_eq!(sizes(&[5, 5]), [2]);
        assert_eq!(sizes(&[5, 6]), [1, 1]);
        assert_eq!(sizes(&[11, 1]), [1, 1]);
    }
}
