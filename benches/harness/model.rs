//! What a fleet needs: rates, cores, memory, streams and disk, by arithmetic over measured costs. Nothing is started.
//!
//! It says which part of one node or one stream each demand is, so that one sees what is full first. What it leaves out:
//! services behind the streams, and what a network of one's own does.

use anyhow::Result;
use clap::Args;

/// A fleet, what things cost, and what a node has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Costs {
    /// Devices; several numbers are columns
    #[arg(long, value_delimiter = ',', default_values_t = [100_000.0, 1e6, 1e7])]
    devices: Vec<f64>,
    /// Messages of a device in a minute
    #[arg(long, default_value_t = 2.0)]
    per_minute: f64,
    /// Bytes of a payload
    #[arg(long, default_value_t = 256.0)]
    payload: f64,
    /// Connects of a device in a day
    #[arg(long, default_value_t = 4.0)]
    connects_per_day: f64,
    /// CPU of the gateway for a message that comes alone, µs
    #[arg(long, default_value_t = 10.0)]
    gateway_us: f64,
    /// CPU of the nats-server that leads the stream for a message, µs
    #[arg(long, default_value_t = 9.5)]
    leader_us: f64,
    /// CPU of all nats-servers for a message, as a multiple of that: 1 without replicas
    #[arg(long, default_value_t = 3.5)]
    replicas_cost: f64,
    /// CPU of the gateway for a connect, µs: login and status event; with TLS also its handshake
    #[arg(long, default_value_t = 100.0)]
    connect_us: f64,
    /// Gateway memory of a connection, KiB; with TLS 11
    #[arg(long, default_value_t = 3.1)]
    connection_kib: f64,
    /// Messages a second that one stream takes when it is full
    #[arg(long, default_value_t = 150_000.0)]
    stream_rate: f64,
    /// Bytes on disk for a message beside its payload: headers, subject, record
    #[arg(long, default_value_t = 250.0)]
    overhead: f64,
    /// Days that the stream keeps
    #[arg(long, default_value_t = 7.0)]
    days: f64,
    /// Replicas of the stream
    #[arg(long, default_value_t = 3.0)]
    replicas: f64,
    /// Cores of a node
    #[arg(long, default_value_t = 8.0)]
    cores: f64,
    /// Memory of a node, GiB
    #[arg(long, default_value_t = 16.0)]
    memory_gib: f64,
    /// Connections that a node may have
    #[arg(long, default_value_t = 200_000.0)]
    connections: f64,
    /// How full things may be
    #[arg(long, default_value_t = 0.5)]
    fill: f64,
}

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Needs {
    messages_per_second: f64,
    gateway_cores: f64,
    gateway_memory_gib: f64,
    /// By CPU, by memory and by connections.
    nodes: [f64; 3],
    nats_cores: f64,
    streams: f64,
    disk_tib: f64,
    network_mbit: f64,
    /// For all devices to connect to that many nodes, which do nothing else.
    storm_seconds: f64,
}

impl Costs {
    /// Prints the table.
    #[expect(clippy::unnecessary_wraps, reason = "as all commands")]
    pub(crate) fn print(&self) -> Result<()> {
        let needs: Vec<(f64, Needs)> = self
            .devices
            .iter()
            .map(|devices| (*devices, self.needs(*devices)))
            .collect();
        let row = |what: &str, digits: usize, of: &dyn Fn(&(f64, Needs)) -> f64| {
            let cells = needs
                .iter()
                .map(|column| format!("{:>14.digits$}", of(column)));
            println!("{what:<46}{}", cells.collect::<String>());
        };
        row("devices", 0, &|(devices, _)| *devices);
        row("messages/s", 0, &|(_, needs)| needs.messages_per_second);
        row("gateway cores", 1, &|(_, needs)| needs.gateway_cores);
        row("gateway memory, GiB", 1, &|(_, needs)| {
            needs.gateway_memory_gib
        });
        row("gateway nodes by CPU", 1, &|(_, needs)| needs.nodes[0]);
        row("gateway nodes by memory", 1, &|(_, needs)| needs.nodes[1]);
        row("gateway nodes by connections", 1, &|(_, needs)| {
            needs.nodes[2]
        });
        row("uplink streams by what one takes", 1, &|(_, needs)| {
            needs.streams
        });
        row("nats-server cores, all replicas", 1, &|(_, needs)| {
            needs.nats_cores
        });
        row("disk, all replicas, TiB", 2, &|(_, needs)| needs.disk_tib);
        row("network into gateways, Mbit/s", 0, &|(_, needs)| {
            needs.network_mbit
        });
        row("seconds for all to connect again", 1, &|(_, needs)| {
            needs.storm_seconds
        });
        println!(
            "{:<46}{}",
            "full first",
            needs
                .iter()
                .map(|(_, needs)| format!("{:>14}", needs.full_first()))
                .collect::<String>()
        );
        Ok(())
    }

    fn needs(&self, devices: f64) -> Needs {
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        let messages_per_second = devices * self.per_minute / 60.0;
        let connects_per_second = devices * self.connects_per_day / 86_400.0;
        let gateway_cores =
            (messages_per_second * self.gateway_us + connects_per_second * self.connect_us) / 1e6;
        let gateway_memory_gib = devices * self.connection_kib * 1024.0 / GIB;
        let nodes = [
            gateway_cores / self.cores / self.fill,
            gateway_memory_gib / self.memory_gib / self.fill,
            devices / self.connections,
        ];
        let stored = (self.payload + self.overhead) * self.replicas;
        let count = nodes.iter().copied().fold(1.0, f64::max).ceil();
        Needs {
            messages_per_second,
            gateway_cores,
            gateway_memory_gib,
            nodes,
            nats_cores: messages_per_second * self.leader_us * self.replicas_cost / 1e6,
            streams: messages_per_second / self.stream_rate / self.fill,
            disk_tib: messages_per_second * stored * 86_400.0 * self.days / (1024.0 * GIB),
            network_mbit: messages_per_second * (self.payload + 60.0) * 8.0 / 1e6,
            storm_seconds: devices * self.connect_us / 1e6 / (count * self.cores),
        }
    }
}

impl Needs {
    /// What is the first to need a second one.
    fn full_first(&self) -> &'static str {
        let [cpu, memory, connections] = self.nodes;
        let all = [
            (cpu, "CPU"),
            (memory, "memory"),
            (connections, "connections"),
            (self.streams, "stream"),
        ];
        let most = all.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        most.map_or("", |(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        costs: Costs,
    }

    #[test]
    fn what_a_fleet_needs_is_proportional_and_says_what_is_full_first() {
        let line = [
            "model",
            "--gateway-us",
            "3",
            "--stream-rate",
            "100000",
            "--per-minute",
            "6",
            "--connects-per-day",
            "0",
        ];
        let costs = Line::parse_from(line).costs;
        let needs = costs.needs(1e6);
        assert!((needs.messages_per_second - 100_000.0).abs() < 1e-6);
        assert!((needs.gateway_cores - 0.3).abs() < 1e-9);
        // The one stream is at its limit, and it is to be half full.
        assert!((needs.streams - 2.0).abs() < 1e-9);
        assert_eq!(needs.full_first(), "connections");
        assert!((costs.needs(2e6).disk_tib / needs.disk_tib - 2.0).abs() < 1e-9);
        let line = ["model", "--per-minute", "60"];
        assert_eq!(
            Line::parse_from(line).costs.needs(1e6).full_first(),
            "stream"
        );
    }
}
