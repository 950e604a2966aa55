//! What the code beside this file promises, held to it.
