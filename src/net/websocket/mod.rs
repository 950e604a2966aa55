//! MQTT in WebSocket frames: `upgrade` answers the HTTP request, `frame` takes frames apart, `stream` is the byte stream.
//!
//! MQTT takes the payloads of all binary frames as one stream of bytes (G21), so no message is ever put together: what a
//! frame holds is unmasked where it was read, and an idle connection has no buffer. That is why this is our own and no
//! library that hands out messages.

mod frame;
mod stream;
mod upgrade;

pub(super) use stream::WebSocket;
pub(super) use upgrade::upgrade;
