//! PURE: what is known of a state folder that holds configuration too. See `own_place`.

/// What is known of a CLI's state folder.
#[derive(Debug)]
pub struct OwnState {
    /// The variable that moves it.
    pub variable: &'static str,
    /// What follows the variable's folder.
    pub below: &'static str,
    /// Where the real one is, as in `Descriptor::state`.
    pub root: &'static str,
    /// What may be written in the real one: folders end with `/` and are made, files are granted where they are there.
    pub written: &'static [&'static str],
    /// What is not taken over: names, or what they begin with if that ends with `*`.
    pub anew: &'static [&'static str],
}
