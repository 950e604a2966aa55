//! What claims, counts and purges read: nothing that is published, on any database.
