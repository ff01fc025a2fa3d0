//! What a producer may say about a job besides its body, its metadata and its time. The list at the end of this file is the only one: the
//! fields of a push, those of an answer, and the form in which stores keep them follow from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::links::AfterFailed;
use super::names::JobId;
use crate::json::is_default;

/// Defines [`JobOptions`] and what has its fields: each with its name in JSON, and the letter by which stores keep it. Names in the list are
/// whole, since other crates expand it.
///
/// An answer has each option of the first list, as `null` if the job does not say it, and leaves those of the second list out then. Stores
/// keep only what a job says.
macro_rules! job_options {
    (
        $dollar:tt answered { $($(#[$form:meta])* $name:ident = $json:literal, $letter:literal: $type:ty;)* }
        answered if said { $($(#[$more_form:meta])* $more:ident = $more_json:literal, $more_letter:literal: $more_type:ty;)* }
    ) => {
        /// What a producer says about a job besides its body, its metadata and its time. Serialized as stores keep it.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct JobOptions {
            $($(#[$form])* #[serde(rename = $letter, default, skip_serializing_if = "is_default")] pub $name: $type,)*
            $($(#[$more_form])* #[serde(rename = $more_letter, default, skip_serializing_if = "is_default")] pub $more: $more_type,)*
        }

        /// [`JobOptions`] as an answer has them.
        #[derive(Serialize, JsonSchema)]
        #[serde(remote = "JobOptions")]
        pub(super) struct AnsweredOptions {
            $($(#[$form])* #[serde(rename = $json)] $name: $type,)*
            $($(#[$more_form])* #[serde(rename = $more_json, skip_serializing_if = "is_default")] $more: $more_type,)*
        }

        /// Defines a document that has the fields of [`JobOptions`](gristmill_core::job::JobOptions) behind its own.
        #[macro_export]
        macro_rules! with_job_options {
            ($dollar(#[$dollar attribute:meta])* $dollar visible:vis struct $dollar document:ident { $dollar($dollar own:tt)* }) => {
                $dollar(#[$dollar attribute])*
                $dollar visible struct $dollar document {
                    $dollar($dollar own)*
                    $($(#[$form])* #[serde(rename = $json, default, skip_serializing_if = "gristmill_core::json::is_default")] $name: $type,)*
                    $($(#[$more_form])* #[serde(rename = $more_json, default, skip_serializing_if = "gristmill_core::json::is_default")] $more: $more_type,)*
                }

                impl $dollar document {
                    /// Exchanges the options of the document and `options`.
                    fn swap_options(&mut self, options: &mut gristmill_core::job::JobOptions) {
                        $(std::mem::swap(&mut self.$name, &mut options.$name);)*
                        $(std::mem::swap(&mut self.$more, &mut options.$more);)*
                    }
                }
            };
        }
    };
}

job_options! { $
    answered {
        /// Jobs of a topic with the same key run one at a time, in the order in which they became ready, unless `per-key` of the
        /// topic says otherwise. It is not empty.
        key = "key", "k": Option<String>;
        /// Which of the topic's ready jobs come first: `normal` if nothing is said.
        priority = "priority", "p": gristmill_core::job::Priority;
        /// At most one job of the topic holds this value: until it is over, or for `window_ms`.
        unique = "unique", "u": Option<gristmill_core::job::Unique>;
        /// Overrides the topic's attempts.
        #[schemars(range(min = 1, max = 1000))]
        max_attempts = "attempts_max", "n": Option<u32>;
        /// How long after it became due the job may still start; then it is expired: counted and gone.
        #[serde(with = "gristmill_core::json::OptionalWaitMs")]
        ttl = "ttl_ms", "t": Option<std::time::Duration>;
        /// Keep the job's result for this long, and notify clients that wait for it. Raises the topic's retention, never lowers it.
        #[serde(with = "gristmill_core::json::OptionalWaitMs")]
        keep_result = "keep_result_ms", "r": Option<std::time::Duration>;
    }
    answered if said {
        /// The job waits until all of these have ended: done, dead, expired or cancelled.
        #[serde(deserialize_with = "gristmill_core::json::at_most::list::<{ gristmill_core::job::AFTER }, _, _>")]
        #[schemars(length(max = gristmill_core::job::AFTER))]
        after = "after", "a": Vec<gristmill_core::job::JobId>;
        /// What becomes of the job if one of the jobs that it waited for was not done, but became dead, expired or was cancelled:
        /// `dead` if nothing is said.
        after_failed = "after_failed", "f": gristmill_core::job::AfterFailed;
        /// The batch that the job is a member of. It waits for the job.
        batch = "batch", "b": Option<gristmill_core::job::JobId>;
        /// The job is a batch: it waits until it is sealed and all its members have ended.
        open = "open", "o": bool;
    }
}

impl JobOptions {
    /// The job waits for another one, or another one for it, because of what it says.
    pub const fn is_linked(&self) -> bool {
        self.waits() || self.batch.is_some()
    }

    /// The job waits for others before it starts.
    pub const fn waits(&self) -> bool {
        self.open || !self.after.is_empty()
    }

    /// The jobs that it names.
    pub fn named(&self) -> impl Iterator<Item = &JobId> {
        self.batch.iter().chain(&self.after)
    }

    /// The same without what ties the job to others.
    pub fn unlinked(self) -> Self {
        Self { after: Vec::new(), after_failed: AfterFailed::default(), batch: None, open: false, ..self }
    }

    /// Bytes of its texts, which count against [`HEADER_BYTES`](crate::admission::HEADER_BYTES).
    pub(super) fn text_bytes(&self) -> usize {
        self.key.as_ref().map_or(0, String::len) + self.unique.as_ref().map_or(0, |unique| unique.value.len())
    }
}
