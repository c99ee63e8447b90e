//! The addon: the edge between JavaScript and the crates of the core. ARCHITECTURE.md has the map.

pub mod binding;
