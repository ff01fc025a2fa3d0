//! Wake-ups, one on a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::whole_ms;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_store as store;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "kebab-case")]
pub(crate) enum Signal {
    Ready {
        tenant: Name,
        topic: Name,
    },
    Due {
        tenant: Name,
        in_ms: u64,
    },
    Finished {
        tenant: Name,
        id: JobId,
    },
    Cancelled {
        tenant: Name,
        id: JobId,
    },
    /// Also whatever a newer server has to tell: look for yourself.
    #[serde(other)]
    Lost,
}

impl From<store::Signal> for Signal {
    fn from(signal: store::Signal) -> Self {
        match signal {
            store::Signal::Ready(TopicId { tenant, topic }) => Self::Ready { tenant, topic },
            store::Signal::Due(tenant, wait) => Self::Due { tenant, in_ms: whole_ms(wait) },
            store::Signal::Finished(tenant, id) => Self::Finished { tenant, id },
            store::Signal::Cancelled(tenant, id) => Self::Cancelled { tenant, id },
            store::Signal::Lost => Self::Lost,
        }
    }
}

impl From<Signal> for store::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Ready { tenant, topic } => Self::Ready(TopicId { tenant, topic }),
            Signal::Due { tenant, in_ms } => Self::Due(tenant, Duration::from_millis(in_ms)),
            Signal::Finished { tenant, id } => Self::Finished(tenant, id),
            Signal::Cancelled { tenant, id } => Self::Cancelled(tenant, id),
            Signal::Lost => Self::Lost,
        }
    }
}
