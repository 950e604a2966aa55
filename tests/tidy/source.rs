//! A source file as text: which lines are tests, what is code and what is comment, what a line imports.
//!
//! It knows Rust only as far as rustfmt's output needs: a string or a comment over several lines, or a macro that builds
//! a path, would escape it.

use std::fs;
use std::path::Path;

/// A text file, its path from the top of the tree.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn is_source(&self) -> bool {
        self.path.starts_with("src/") && self.path.ends_with(".rs")
    }

    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    pub(crate) fn is_test(&self) -> bool {
        !self.is_source()
            || self.stem() == "tests"
            || self.stem().ends_with("_tests")
            || self.path.contains("/tests/")
    }

    /// The number of the line from which on a source file is its `#[cfg(test)] mod .. {`, which is always last.
    pub(crate) fn tests_from(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        let inline = |pair: &[&str]| matches!(pair, [attribute, module] if *attribute == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{'));
        lines
            .windows(2)
            .position(inline)
            .map_or(usize::MAX, |index| index + 1)
    }

    /// Lines that end up in the program; no lines of test files.
    pub(crate) fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test() { 0 } else { self.tests_from() };
        self.lines().take_while(move |(number, _)| *number < end)
    }

    /// Lines of tests, wherever they stand.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let start = if self.is_test() { 0 } else { self.tests_from() };
        self.lines().skip_while(move |(number, _)| *number < start)
    }

    /// `src/auth/acl.rs` is `auth::acl`; `src/auth/mod.rs` is `auth`.
    pub(crate) fn module(&self) -> String {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        // A module's tests may stand beside it, in a file of their own.
        let path = path.trim_end_matches("_tests").trim_end_matches("/mod");
        path.replace('/', "::")
    }
}

/// The code of a line: no comment, and no content of strings.
pub(crate) fn code(line: &str) -> String {
    let mut code = String::new();
    let mut in_string = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_string => drop(characters.next()),
            '\'' if !in_string && characters.peek() == Some(&'"') => drop(characters.next()),
            '"' => in_string = !in_string,
            '/' if !in_string && characters.peek() == Some(&'/') => break,
            _ if in_string => {}
            _ => code.push(character),
        }
    }
    code
}

pub(crate) fn is_identifier(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Where `word` stands in `code`, not as a part of a longer identifier.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = code[..*at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            !before.is_some_and(|c| is_identifier(c) || c == '$')
                && !after.is_some_and(is_identifier)
        })
}

/// What a line of code imports, as paths from the crate's root.
pub(crate) fn imports(file: &File, line: &str) -> Vec<String> {
    let mut code = code(line);
    // In a file just under the root, `super` is the root.
    if !file.module().contains("::") && code.starts_with("use super::") {
        code = code.replacen("super", "crate", 1);
    }
    let path_end = |c: char| !is_identifier(c) && c != ':';
    let starts = words(&code, "crate").map(|at| &code[at..]);
    let paths = starts.filter_map(|from| from.strip_prefix("crate::"));
    paths
        .map(|path| path[..path.find(path_end).unwrap_or(path.len())].to_owned())
        .collect()
}

/// `MQTT-x.y.z-n` of each tag in a line.
pub(crate) fn tags_in(line: &str) -> impl Iterator<Item = &str> {
    line.split('[')
        .filter(|part| part.starts_with("MQTT-"))
        .filter_map(|part| part.split_once(']'))
        .map(|(tag, _)| tag)
}

pub(crate) fn tree() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    read(root, root, &mut files);
    files
}

/// Reads what is ours: no build output, no history, no data that a fuzzer made.
pub(crate) fn read(root: &Path, folder: &Path, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).expect("a folder of the tree");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry of the tree").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !["target", ".git", "corpus", "artifacts"].contains(&name.as_str()) {
            read(root, &path, files);
        } else if path.is_file() {
            let from_root = path.strip_prefix(root).expect("a path under the root");
            files.push(File {
                path: from_root.to_string_lossy().into_owned(),
                text: String::from_utf8_lossy(&fs::read(&path).expect("a file of the tree"))
                    .into_owned(),
            });
        }
    }
}
