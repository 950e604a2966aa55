//! Conformance of the codec: what bytes mean, what is refused and with which Reason Code, in both versions.
//!
//! `packets` is a table of packets and their bytes, which `accepted` checks; `rejected.txt` one of bytes and the
//! error they get; `malformed.json` the malformed cases that the gateway is tested with as a whole. `round_trip`
//! checks any packet and any bytes, `allocation` what decoding costs.

#[cfg(test)]
mod accepted;
#[cfg(test)]
mod allocation;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod packets;
#[cfg(test)]
mod rejected;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod strategy;
#[cfg(test)]
mod wire;
