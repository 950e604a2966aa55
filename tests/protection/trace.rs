//! What users of a nats-server publish and subscribe to, by its trace, and what its configuration allows them.

use std::collections::BTreeSet;

use jetway::message::covers;

/// Makes a nats-server write down what its clients send.
pub(crate) const TRACE: &str = "\ntrace: true\nmax_traced_msg_len: 1\n";

/// Of one user: what is allowed, or what was done.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    publish: BTreeSet<String>,
    subscribe: BTreeSet<String>,
}

impl Subjects {
    /// What a configuration allows.
    pub(crate) fn allowed(config: &str, user: &str) -> Self {
        let lines = config.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        let lines = lines.join("\n");
        let (_, user) = lines.split_once(&format!("user: {user}\n")).unwrap();
        let list = |name: &str| {
            let (_, list) = user.split_once(&format!("{name}: [")).unwrap();
            let (list, _) = list.split_once(']').unwrap();
            let entries = list.split('"').skip(1).step_by(2);
            entries.map(str::to_owned).collect()
        };
        Self {
            publish: list("publish"),
            subscribe: list("subscribe"),
        }
    }

    /// What a trace shows.
    pub(crate) fn used(trace: &str, user: &str) -> Self {
        let mut used = Self::default();
        let whose = format!("/user:{user}\"");
        for line in trace.lines().filter(|line| line.contains(&whose)) {
            let operation = line.split_once(" <<- [").unwrap_or_default().1;
            let mut words = operation.trim_end_matches(']').split(' ');
            let subjects = match words.next() {
                Some("PUB" | "HPUB") => &mut used.publish,
                Some("SUB") => &mut used.subscribe,
                _ => continue,
            };
            subjects.extend(words.next().map(str::to_owned));
        }
        used
    }

    /// Whether this subject was published to.
    pub(crate) fn has_published(&self, subject: &str) -> bool {
        self.publish.contains(subject)
    }

    /// The entries without which nothing that was done would be missing: no subject is covered by one of them alone.
    pub(crate) fn unneeded(&self, used: &Self) -> Vec<&str> {
        let lists = [
            (&self.publish, &used.publish),
            (&self.subscribe, &used.subscribe),
        ];
        let unneeded = lists.into_iter().flat_map(|(entries, used)| {
            entries.iter().filter(|entry| {
                let alone = |subject: &&String| {
                    let mut by = entries.iter().filter(|entry| covers(entry, subject));
                    by.next() == Some(entry) && by.next().is_none()
                };
                !used.iter().any(|subject| alone(&subject))
            })
        });
        unneeded.map(String::as_str).collect()
    }
}
