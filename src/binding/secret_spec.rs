//! A secret of a sandbox on its way to the proxy.

use napi_derive::napi;

/// A secret, by the variable that holds its placeholder.
#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct SecretSpec {
    pub value: String,
    pub hosts: Vec<String>,
    pub placeholder: Option<String>,
}
