//! What devices and services do, a file each, and what is measured meanwhile.

mod downlink;
mod fan_in;
mod idle;
mod measuring;
mod publishing;
mod raw;
mod raw_batch;
mod rpc;
mod storm;
mod vehicles;

pub(crate) use measuring::{Measured, Usage};

use anyhow::Result;

use crate::arguments::{Arguments, Name, Scenario};
use crate::target::Target;

/// Runs the scenario to its end.
pub(crate) async fn run(
    scenario: Scenario,
    target: &Target,
    arguments: &Arguments,
) -> Result<Measured> {
    match scenario {
        Scenario::FanIn if target.kind == Name::RawBatch => raw_batch::run(target, arguments).await,
        Scenario::FanIn if target.server.is_none() => raw::run(target, arguments).await,
        Scenario::FanIn => fan_in::run(target, arguments).await,
        Scenario::Downlink => downlink::run(target, arguments).await,
        Scenario::Rpc => rpc::run(target, arguments).await,
        Scenario::Storm => storm::run(target, arguments).await,
        Scenario::Idle => idle::run(target, arguments).await,
        Scenario::Fleet => vehicles::run(target, arguments).await,
    }
}
