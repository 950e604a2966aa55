//! Compiles the protobuf schemas beside this file to Rust, in Rust: no `protoc` is needed.

use std::error::Error;

const SCHEMAS: [&str; 1] = ["proto/jetway/v1/device_message.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(SCHEMAS, ["proto"])?;
    prost_build::Config::new()
        .bytes(["."]) // payloads are not copied out of the message
        .compile_fds(descriptors)?;
    Ok(())
}
