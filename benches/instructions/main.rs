//! Instructions and allocations of the hot path, counted by callgrind and held to a committed baseline.
//!
//! `cargo run --release --locked -p jetway-instructions` compares; behind `-- --update` it writes `baseline.<architecture>.toml`
//! instead. A case may not grow by more than 5 %, nor allocate once more. Time plays no part: what is counted is the same on a
//! busy machine. It needs `valgrind`.

mod baseline;
mod callgrind;
mod cases;
mod verdict;

use std::process::ExitCode;

use baseline::Baseline;

/// Runs the cases under callgrind; nobody gives it by hand.
const MEASURED: &str = "--measured";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        [] => compare(),
        ["--update"] => update(),
        [MEASURED] => {
            cases::run();
            Ok(())
        }
        _ => Err("expected no argument, or --update".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn update() -> Result<(), String> {
    let counted = Baseline::count()?;
    counted.save()?;
    println!(
        "{} cases counted: {}",
        counted.cases.len(),
        Baseline::file()
    );
    Ok(())
}

fn compare() -> Result<(), String> {
    let (baseline, counted) = (Baseline::load()?, Baseline::count()?);
    let verdict = verdict::of(&baseline, &counted);
    print!("{}", verdict.table);
    for notice in &verdict.notices {
        eprintln!("note: {notice}");
    }
    match verdict.faults.is_empty() {
        true => Ok(()),
        false => Err(verdict.faults.join("\n")),
    }
}
