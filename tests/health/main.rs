//! Whether all goes well, as an operator learns it: figures, `/health/mq`, alarms that arrive, and rules for Prometheus.
//! With a real nats-server, real consumers, real HTTP receivers, and Prometheus's own promtool.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[path = "../gateway/site.rs"]
#[expect(dead_code, reason = "the tests of flows use all of it")]
mod site;

#[cfg(test)]
mod dead_letters;
#[cfg(test)]
mod durables;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod notifier;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod receiver;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod series;
#[cfg(test)]
mod setting;
