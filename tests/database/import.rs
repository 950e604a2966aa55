//! Lists of devices imported and exported by the command line, on each kind of database.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use jetway::auth::credentials::Secret;
use jetway::catalogue::{Catalogue, Filter, State};
use jetway::database::Kind;
use jetway::device::DeviceId;
use tempfile::TempDir;

use crate::rig::{Site, on_each};
use crate::support::{eventually, jetway, jetway_fails};

on_each!(
    a_hundred_thousand_devices_come_in_and_go_out,
    a_list_with_faults_stores_nothing,
    devices_that_are_there_are_compared,
    an_import_that_is_cut_off_goes_on,
);

const HEADER: &str = "product,name,secret,state,gateway\n";
const MANY: usize = 100_000;

/// A list in a file of its own.
fn list(folder: &TempDir, lines: &str) -> String {
    let file = folder.path().join("list.csv");
    fs::write(&file, format!("{HEADER}{lines}")).unwrap();
    file.display().to_string()
}

fn command<'a>(site: &'a Site, words: &[&'a str]) -> Vec<&'a str> {
    [&["device"], words, &["--database", &site.config.url]].concat()
}

fn device(site: &Site, words: &[&str]) -> String {
    jetway(&command(site, words), &[])
}

fn device_fails(site: &Site, words: &[&str]) -> String {
    jetway_fails(&command(site, words), &[]).1
}

/// Every device a line, in the order of an export; each thousandth is a gateway of the hundred behind it.
fn many() -> String {
    let mut lines = String::new();
    for number in 0..MANY {
        let secret = Secret::from_key(&number.to_be_bytes());
        let state = State::ALL[number % 3];
        let gateway = match number % 1_000 {
            0 | 101.. => String::new(),
            _ => format!("p/d{:06}", number / 1_000 * 1_000),
        };
        let secret = secret.text();
        writeln!(lines, "p,d{number:06},{secret},{state},{gateway}").unwrap();
    }
    lines
}

async fn a_hundred_thousand_devices_come_in_and_go_out(site: &Site, kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let file = list(&folder, &many());
    let begun = Instant::now();
    let said = device(site, &["import", &file]);
    let imported = begun.elapsed();
    assert_eq!(
        said,
        "100000 added, 0 unchanged, 0 replaced, 0 refused, 10000 bound\n"
    );
    let begun = Instant::now();
    let said = device(site, &["import", &file]);
    let again = begun.elapsed();
    assert_eq!(
        said,
        "0 added, 100000 unchanged, 0 replaced, 0 refused, 10000 bound\n"
    );
    let out = folder.path().join("out.csv");
    let begun = Instant::now();
    device(
        site,
        &["export", "--secrets", "-o", &out.display().to_string()],
    );
    let exported = begun.elapsed();
    let whole = fs::read_to_string(&out).unwrap() == fs::read_to_string(&file).unwrap();
    assert!(whole, "what goes out is what came in");
    assert!(!Path::new(&format!("{}.part", out.display())).exists());
    println!("{kind:?}: imported in {imported:?}, again in {again:?}, exported in {exported:?}");
    let without = device(site, &["export", "p"]);
    let (first, count) = (without.lines().nth(2).unwrap(), without.lines().count());
    assert_eq!((first, count), ("p,d000001,,disabled,p/d000000", MANY + 1));
}

async fn a_list_with_faults_stores_nothing(site: &Site, _: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let file = list(&folder, "p,a,,,\np,b/c,,,\np,d,,asleep,\n");
    let said = device_fails(site, &["import", &file]);
    for part in [
        "line 3: ",
        "line 4: state: expected",
        "nothing is stored, 2 lines have faults",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let good = list(&folder, "p,a,,,\n");
    let said = device(site, &["import", &good, "--dry-run"]);
    assert_eq!(said, "1 devices, no faults\n");
    assert_eq!(device(site, &["ls"]), "");
}

async fn devices_that_are_there_are_compared(site: &Site, _: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (
        "AAECAwQFBgcICQoLDA0ODxAREhM=",
        "ICEiIyQlJicoKSorLC0uLzAxMjM=",
    );
    for name in ["a", "b", "c"] {
        device(site, &["add", "p", name, "--secret", old]);
    }
    // The same; another secret; another state; new with a random secret; with a gateway that is not there.
    let lines = format!("p,a,{old},,\np,b,{new},,\np,c,,blocked,\nq,d,,,\nq,e,,,q/none\n");
    let file = list(&folder, &lines);
    let said = device_fails(site, &["import", &file]);
    for part in [
        "line 3: p/b is there with another secret or state",
        "line 4: p/c is there with another",
        "line 6: gateway q/none: there is no device q/none",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains(new) && !said.contains(old), "{said}");
    let catalogue = Catalogue::open(&site.config).await.unwrap();
    let record = async |product: &str, name: &str| {
        let id = DeviceId::new(product, name).unwrap();
        catalogue.find(&id).await.unwrap().unwrap()
    };
    assert_eq!(record("p", "b").await.secret.text(), old);
    assert_eq!(record("q", "d").await.secret.text().len(), 28);
    assert_eq!(record("q", "e").await.state, State::Enabled);

    let file = list(&folder, &lines.replace("q/none", "q/d"));
    let said = device(site, &["import", &file, "--replace"]);
    assert_eq!(
        said,
        "0 added, 3 unchanged, 2 replaced, 0 refused, 1 bound\n"
    );
    assert_eq!(record("p", "b").await.secret.text(), new);
    let blocked = record("p", "c").await;
    assert_eq!(
        (blocked.secret.text(), blocked.state),
        (old, State::Blocked)
    );
    assert_eq!(record("q", "d").await.sub_devices.len(), 1);
}

/// Killed somewhere in the middle, and run again.
async fn an_import_that_is_cut_off_goes_on(site: &Site, _: Kind) {
    const DEVICES: usize = 5_000;
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..DEVICES)
        .map(|number| format!("p,d{number:05},,,\n"))
        .collect();
    let file = list(&folder, &lines);
    let catalogue = Catalogue::open(&site.config).await.unwrap();
    let count = async || {
        let page = catalogue.page(&Filter::default(), None, DEVICES + 1).await;
        page.map(|page| page.len())
    };
    let mut import = Command::new(env!("CARGO_BIN_EXE_jetway"))
        .args(command(site, &["import", &file, "--batch", "10"]))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first devices are there", async || {
        match count().await {
            Ok(0) => Err("none".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    import.kill().unwrap();
    import.wait().unwrap();
    let there = count().await.unwrap();
    assert_eq!(there % 10, 0, "whole transactions");
    let said = device(site, &["import", &file]);
    let added = DEVICES - there;
    assert_eq!(
        said,
        format!("{added} added, {there} unchanged, 0 replaced, 0 refused, 0 bound\n")
    );
    assert_eq!(count().await.unwrap(), DEVICES);
}
