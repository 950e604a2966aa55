//! STEP 3: may a device do that.

pub mod acl;
