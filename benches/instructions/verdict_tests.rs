//! What fails the comparison, what it only says, and what passes.

use super::*;
use crate::baseline::Count;

fn counts(rustc: &str, cases: &[(&str, u64, u64)]) -> Baseline {
    let cases = cases.iter().map(|(name, instructions, allocations)| {
        let count = Count {
            instructions: *instructions,
            allocations: *allocations,
        };
        ((*name).to_owned(), count)
    });
    Baseline {
        rustc: rustc.to_owned(),
        cases: cases.collect(),
    }
}

fn check(now: &[(&str, u64, u64)], faults: &[&str], notices: usize) {
    let verdict = of(&counts("1", &[("a", 1_000, 10)]), &counts("1", now));
    assert_eq!(verdict.faults, faults, "{now:?}");
    assert_eq!(verdict.notices.len(), notices, "{:?}", verdict.notices);
}

#[test]
fn growth_beyond_the_limit_fails_and_says_by_how_much() {
    check(&[("a", 1_050, 10)], &[], 0);
    let fault = "a: 1051 instructions, 1000 in the baseline: +5.1 %, at most +5 % may land";
    check(&[("a", 1_051, 10)], &[fault], 0);
}

#[test]
fn one_more_allocation_fails() {
    let fault = "a: 11 allocations, 10 in the baseline: none more may land";
    check(&[("a", 1_000, 11)], &[fault], 0);
}

#[test]
fn what_became_cheaper_asks_for_a_new_baseline() {
    check(&[("a", 950, 10)], &[], 0);
    check(&[("a", 949, 10)], &[], 1);
    check(&[("a", 1_000, 9)], &[], 1);
}

#[test]
fn no_case_is_left_out() {
    let new = format!("b: not in the baseline; {UPDATE}");
    check(&[("a", 1_000, 10), ("b", 1, 0)], &[&new], 0);
    let gone = format!("a: in the baseline and not counted; {UPDATE}");
    check(&[], &[&gone], 0);
}

#[test]
fn another_compiler_is_said_and_held_to_the_same() {
    let baseline = counts("1", &[("a", 1_000, 10)]);
    let verdict = of(&baseline, &counts("2", &[("a", 1_100, 10)]));
    assert_eq!((verdict.notices.len(), verdict.faults.len()), (1, 1));
}
