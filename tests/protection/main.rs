//! Those who take too much, from outside: half-open handshakes, guessed passwords, clients that fight over an identity, floods; and
//! what a device that behaves notices of it (G15, G19, issue "Protection").

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod exercise;
#[cfg(test)]
mod fight;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod loris;
#[cfg(test)]
mod names;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod site;
#[cfg(test)]
mod stuffing;
#[cfg(test)]
mod trace;
