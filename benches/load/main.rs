//! Load on the real program: a nats-server, a gateway and many devices on this machine, and what they cost.
//!
//! `cargo bench --bench load -- idle --connections 10000` prints the gateway's memory per idle connection.
//! `cargo bench --bench load -- uplink --connections 1000 --window 16` prints messages a second, PUBACK latency and CPU
//! time per message under a closed loop, and checks that exactly what was acknowledged is in the stream.
//!
//! The gateway takes this program's environment: `JETWAY_MAPPING_LIVE='[]'` measures it without live copies. Client and
//! servers share the machine, so compare CPU time per message rather than messages a second.

mod client;
mod idle;
mod process;
mod servers;
mod uplink;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    /// Given by `cargo bench`
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    scenario: Option<Scenario>,
}

#[derive(Subcommand)]
enum Scenario {
    /// Memory of the gateway per connection that does nothing
    Idle(idle::Arguments),
    /// QoS 1 messages as fast as each device's window lets it
    Uplink(uplink::Arguments),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().scenario {
        Some(Scenario::Idle(arguments)) => idle::run(arguments).await,
        Some(Scenario::Uplink(arguments)) => uplink::run(arguments).await,
        None => {
            // `cargo bench` runs all benches: this one only on request.
            println!("load: choose a scenario: cargo bench --bench load -- idle | uplink");
            Ok(())
        }
    }
}
