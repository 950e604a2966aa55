//! The servers and the network between them fail under load: what a device was told is true, and stays true.
//!
//! Promises: G-STORE, G-ORDER, G-ONCE, G-BOUND, G25, G27. Every test counts what was published, PUBACKed and stored and
//! prints it (`cargo test --test outage -- --nocapture`). What can break a batch is tried with each way of publishing.
//!
//! `JETWAY_SOAK_SECONDS=60` makes each of the tests in `killed` go on for so long instead of a fixed number of kills, and those in
//! `bounded` keep nats-server away for so long from 5,000 devices instead of 5 s from 500;
//! `JETWAY_SEED` repeats the choices of an earlier run, which printed it.

#[path = "../support/mod.rs"]
mod support;

/// Makes of each function a test for each way of publishing.
#[cfg(test)]
macro_rules! each_protocol {
    ($($test:ident),* $(,)?) => {
        each_protocol!(fast Fast $($test)*);
        each_protocol!(atomic Atomic $($test)*);
        each_protocol!(single Single $($test)*);
    };
    ($module:ident $publishing:ident $($test:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(crate::rig::Publishing::$publishing).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod bounded;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod cut;
#[cfg(test)]
mod denied;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod paused;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod verdict;
