//! Every errno of a start, on every call that can answer it.
