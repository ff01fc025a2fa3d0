//! What a person sees while a scenario runs.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, or nothing. Cheap to clone; clones are one bar.
#[derive(Debug, Clone)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar that shows nothing until a scenario begins.
    pub fn shown() -> Self {
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template("{msg:32} {wide_bar} {human_pos}/{human_len} {eta:>4}") {
            bar.set_style(style);
        }
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        Self(bar)
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins anew, with so many jobs (or reloads, or whatever is counted) to come.
    pub(super) fn begin(&self, what: impl Into<String>, total: usize) {
        self.0.reset();
        self.0.set_message(what.into());
        self.0.set_length(total as u64);
    }

    pub(super) fn add(&self, done: usize) {
        self.0.inc(done as u64);
    }

    /// Takes the bar off the screen, so that something can be printed in its place.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
