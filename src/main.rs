//! The `jetway` program: arguments, then the command that they name.

use std::process::ExitCode;

use clap::Parser;
use jetway::cli;
use tikv_jemalloc_ctl::background_thread;

/// Returns freed memory and counts what is held; idle connections are most of a gateway's memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // What devices that have gone leave behind is returned by a thread of the allocator's, also when nothing else happens.
    // Where that is not available, it is returned when memory is used next.
    background_thread::write(true).ok();
    cli::execute(cli::Cli::parse()).await
}
