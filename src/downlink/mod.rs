//! FLOW: a stored downlink → its device, live.
//!
//! `DEVICE_DOWN` republishes what it stores; one wildcard subscription of this node sees it all and the registry says whether
//! the device is connected here: no subscription, channel, task or consumer per device (PERFORMANCE). A device
//! that is not connected keeps its messages in the stream; reading them from its cursor comes with stored sessions.

mod live;
mod metrics;

pub use live::Live;
pub use metrics::{Metrics, Outcome};
