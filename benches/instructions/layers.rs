//! The gateway's layers without I/O, compiled from their own files: what is counted is what the gateway runs, and without the
//! rest there is little to build.
//!
//! The modules stand where they stand in the gateway, so that their paths hold. It builds only as long as they import
//! nothing but each other.

#![allow(dead_code, unused_imports, reason = "the rest of the gateway uses it")]

#[path = "../../src/access.rs"]
pub mod access;
#[path = "../../src/device.rs"]
pub mod device;
#[path = "../../src/mapping/mod.rs"]
pub mod mapping;
#[path = "../../src/message.rs"]
pub mod message;
#[path = "../../src/mqtt/mod.rs"]
pub mod mqtt;
#[path = "../../src/session/mod.rs"]
pub mod session;

/// STEP 3, the part that is asked for each PUBLISH.
#[path = "../../src/auth"]
pub mod auth {
    pub mod acl;
}

/// STEP 5, the part that is bytes.
#[path = "../../src/jetstream"]
pub mod jetstream {
    /// As the gateway has it.
    const MSG_ID: &str = "Nats-Msg-Id";

    /// The publisher's connection.
    pub mod wire {
        use bytes::BytesMut;

        use crate::message::Message;

        mod frame;

        /// Writes a message of a guarded batch as a shard does: `number` is its place there, and answers come to `start`.
        pub fn publish(out: &mut BytesMut, start: &str, number: u64, message: &Message) {
            let dispatch = frame::Dispatch {
                reply: Some(frame::Reply {
                    start,
                    number,
                    end: ".1.$FI",
                }),
                once: frame::Once::Batch,
                place: None,
            };
            let message = (&*message.subject, &message.headers, &*message.payload);
            frame::publish(out, message, &dispatch);
        }
    }
}
