//! A secret of a sandbox on its way to the proxy.

/// A secret as its user lists it.
pub struct ListedSecret {
    pub name: String,
    pub value: String,
    pub hosts: Vec<String>,
    pub placeholder: Option<String>,
}
