//! PURE: the description of a CLI's state folder that holds configuration too. See `folder::state_folder`.

/// Description of a CLI's state folder.
#[derive(Debug)]
pub struct OwnState {
    /// The variable that moves it.
    pub variable: &'static str,
    /// Path below the variable's folder.
    pub below: &'static str,
    /// Path of the real one, as in `Descriptor::state`.
    pub root: &'static str,
    /// Entries of the real one that may be written: folders end with `/` and are made, files are granted where they are there.
    pub written: &'static [&'static str],
    /// Entries that are not taken over: names, or what they begin with if that ends with `*`.
    pub anew: &'static [&'static str],
}
