//! pub mod
