//! The protobuf message form of `mapping`, as proto/build.rs makes it for the gateway.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let descriptors = protox::compile(["jetway/v1/device_message.proto"], ["../../proto"])?;
    prost_build::Config::new()
        .bytes(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
