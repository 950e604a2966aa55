//! The routes of the topics that one sender used last, so that a topic is authorised and mapped once and not with each message.
//!
//! A device uses a few topics; one that uses many has the others mapped each time. When it changes what a sender may do, its routes are
//! forgotten.

use crate::mapping::Route;

/// Most of them; few enough to be looked through.
const KEPT_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Routes {
    #[expect(
        clippy::vec_box,
        reason = "an idle device keeps no room for more than it uses"
    )]
    kept: Vec<Box<Route>>,
    /// Which one leaves next.
    oldest: usize,
}

impl Routes {
    /// Where the route of a topic is.
    pub(super) fn find(&self, topic: &str) -> Option<usize> {
        self.kept.iter().position(|route| route.topic() == topic)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Route> {
        self.kept.get(at).map(|route| &**route)
    }

    /// Keeps a route in place of the oldest one; where it is.
    pub(super) fn keep(&mut self, route: Route) -> usize {
        let route = Box::new(route);
        if self.kept.len() < KEPT_MAX {
            self.kept.reserve_exact(1);
            self.kept.push(route);
            return self.kept.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % KEPT_MAX;
        if let Some(place) = self.kept.get_mut(at) {
            *place = route;
        }
        at
    }
}
