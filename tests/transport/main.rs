//! Every way to the gateway but plain TCP: TLS, WebSocket, PROXY protocol, Unix socket; real clients and raw bytes.
//!
//! One gateway with a listener of each kind is shared; tests about renewal, deadlines and restarts start their own. Names in
//! comments (G15, G20, G21) are the promises that are tested.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod client;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod half_open;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod renewal;
#[cfg(test)]
mod site;
#[cfg(test)]
mod slow_reader;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod unix;
#[cfg(test)]
mod websocket;
