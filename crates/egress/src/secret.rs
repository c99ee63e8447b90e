//! Secrets that a program uses and never holds. PURE.
//!
//! The program has a placeholder. It becomes the secret in the values of headers, on the way to the secret's own hosts. To any
//! other host it must not go at all: a program that sends it there was told to take the secret away.

use crate::host::{Host, Hosts, Rule};
use crate::search::Needle;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use std::fmt;

/// A shorter one would be found where it is not meant.
const LEAST_BYTES: usize = 8;
/// Random characters of a placeholder.
const RANDOM: usize = 16;
/// The longest beginning of a secret that says its kind, such as "sk-ant-api03-".
const MAX_KIND_BYTES: usize = 16;

/// A secret of a program.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    name: String,
    value: String,
    placeholder: String,
    hosts: Hosts,
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Secret {
    /// `random`: letters and digits for a placeholder that is not given.
    ///
    /// # Errors
    /// What is wrong with the value or the placeholder, in words without the value.
    pub fn new(
        name: &str,
        value: &str,
        placeholder: Option<&str>,
        hosts: Vec<Rule>,
        random: &str,
    ) -> Result<Secret, (&'static str, &'static str)> {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if value.len() < LEAST_BYTES || !is_word(value) {
            return Err(("value", "expected at least 8 characters of ASCII without spaces"));
        }
        let placeholder = placeholder.map_or_else(|| made_like(value, random), str::to_owned);
        if placeholder.len() < LEAST_BYTES || !is_word(&placeholder) {
            return Err(("placeholder", "expected at least 8 characters of ASCII without spaces"));
        }
        if placeholder.contains(value) || value.contains(&placeholder) {
            return Err(("placeholder", "expected another text than the value"));
        }
        Ok(Secret { name: name.to_owned(), value: value.to_owned(), placeholder, hosts: Hosts::new(hosts) })
    }

    /// The variable that holds the placeholder.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn is_for(&self, host: &Host, port: u16) -> bool {
        self.hosts.way(host, port).is_some()
    }

    fn needle(&self) -> Needle {
        Needle { text: self.placeholder.clone().into_bytes(), replacement: None }
    }
}

/// The same beginning and length, and else random.
fn made_like(value: &str, random: &str) -> String {
    let beginning = value.get(..value.len().min(MAX_KIND_BYTES)).unwrap_or_default();
    let kind = beginning.rfind(['-', '_']).map_or("", |at| beginning.get(..=at).unwrap_or_default());
    let length = value.len().saturating_sub(kind.len()).max(RANDOM);
    kind.chars().chain(random.chars().cycle().take(length)).collect()
}

/// A placeholder on the way to a host that its secret is not for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leak(pub String);

/// All secrets of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    pub fn new(secrets: Vec<Secret>) -> Secrets {
        Secrets(secrets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter()
    }

    /// Whether a secret is for this host.
    pub(crate) fn has_for(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|secret| secret.is_for(host, port))
    }

    /// Puts the secrets into the headers of a request to this host.
    pub(crate) fn exchange(
        &self,
        host: &Host,
        port: u16,
        uri: &Uri,
        headers: &mut HeaderMap,
    ) -> Result<(), Leak> {
        let target = uri.path_and_query().map_or("", |path| path.as_str());
        for secret in &self.0 {
            let placeholder = &secret.placeholder;
            let is_own = secret.is_for(host, port);
            let in_name = |name: &str| name.contains(&placeholder.to_ascii_lowercase());
            if !is_own && (target.contains(placeholder) || headers.keys().any(|name| in_name(name.as_str())))
            {
                return Err(Leak(secret.name.clone()));
            }
            for value in headers.values_mut() {
                let Some(exchanged) = exchanged(value.as_bytes(), secret) else { continue };
                if !is_own {
                    return Err(Leak(secret.name.clone()));
                }
                if let Ok(mut exchanged) = HeaderValue::from_bytes(&exchanged) {
                    exchanged.set_sensitive(true);
                    *value = exchanged;
                }
            }
        }
        Ok(())
    }

    /// The placeholders that must not be in a body that goes to this host.
    pub(crate) fn foreign(&self, host: &Host, port: u16) -> Vec<Needle> {
        self.0.iter().filter(|secret| !secret.is_for(host, port)).map(Secret::needle).collect()
    }

    /// Hides secrets in the headers of an answer.
    pub(crate) fn hide_in(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if let Some(hidden) = self.hide(value.as_bytes())
                && let Ok(hidden) = HeaderValue::from_bytes(&hidden)
            {
                *value = hidden;
            }
        }
        // Names are in lower case, as many keys are.
        let values: Vec<String> = self.0.iter().map(|secret| secret.value.to_ascii_lowercase()).collect();
        let holds = |name: &&HeaderName| values.iter().any(|value| name.as_str().contains(value));
        let names: Vec<HeaderName> = headers.keys().filter(holds).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// Replacements for a host's answer: a secret that it repeats becomes the placeholder again.
    pub(crate) fn hidden(&self) -> Vec<Needle> {
        let hidden = |secret: &Secret| Needle {
            text: secret.value.clone().into_bytes(),
            replacement: Some(secret.placeholder.clone().into_bytes()),
        };
        self.0.iter().map(hidden).collect()
    }

    /// Whether an answer keeps its length.
    pub(crate) fn keeps_length(&self) -> bool {
        self.0.iter().all(|secret| secret.value.len() == secret.placeholder.len())
    }

    /// The text with placeholders in the place of secrets; `None` without a secret in it.
    #[must_use]
    pub fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut hidden: Option<Vec<u8>> = None;
        for secret in &self.0 {
            let from = hidden.as_deref().unwrap_or(text);
            if let Some(replaced) = replaced(from, secret.value.as_bytes(), secret.placeholder.as_bytes()) {
                hidden = Some(replaced);
            }
        }
        hidden
    }
}

/// The value of a header with the secret in it; `None` if the placeholder is not.
fn exchanged(value: &[u8], secret: &Secret) -> Option<Vec<u8>> {
    let (placeholder, own) = (secret.placeholder.as_bytes(), secret.value.as_bytes());
    if let Some(replaced) = replaced(value, placeholder, own) {
        return Some(replaced);
    }
    // A password is encoded, together with the name of its user.
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let replaced = replaced(&decoded, placeholder, own)?;
    Some([scheme, STANDARD.encode(replaced).as_bytes()].concat())
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    memmem::find(text, from)?;
    let (mut all, mut at) = (Vec::with_capacity(text.len()), 0);
    for start in memmem::find_iter(text, from) {
        all.extend_from_slice(text.get(at..start).unwrap_or_default());
        all.extend_from_slice(to);
        at = start + from.len();
    }
    all.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "sk-ant-api03-REALREALREALREALREAL";
    const RANDOM: &str = "0123456789abcdef0123456789abcdef";

    fn secret(name: &str, value: &str, host: &str) -> Secret {
        Secret::new(name, value, None, vec![Rule::parse(host).unwrap()], RANDOM).unwrap()
    }

    fn secrets() -> Secrets {
        Secrets::new(vec![
            secret("MODEL_KEY", VALUE, "api.example.com"),
            secret("GIT_TOKEN", "ghp_REALREALREALREALREALREAL", "git.example.com"),
        ])
    }

    fn on(host: &str, uri: &str, header: (&str, &str)) -> Result<String, Leak> {
        let mut headers = HeaderMap::new();
        let name: HeaderName = header.0.parse().unwrap();
        headers.insert(name.clone(), header.1.parse().unwrap());
        let host = Host::parse(host).unwrap();
        secrets().exchange(&host, 443, &uri.parse().unwrap(), &mut headers)?;
        Ok(headers[name].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_placeholder_has_the_kind_and_the_length_of_its_secret() {
        for (value, kind) in [
            (VALUE, "sk-ant-api03-"),
            ("ghp_REALREALREALREALREALREAL", "ghp_"),
            ("github_pat_11REALREALREALREALREAL", "github_pat_"),
            ("0123456789012345678901234567", ""),
        ] {
            let placeholder = secret("KEY", value, "a.example").placeholder;
            assert_eq!(placeholder.len(), value.len(), "{value}");
            assert!(placeholder.starts_with(kind) && placeholder != value, "{placeholder}");
        }
        // A short one gets random characters enough.
        assert_eq!(secret("KEY", "87654321", "a.example").placeholder.len(), super::RANDOM);
    }

    #[test]
    fn a_value_that_cannot_be_found_or_sent_is_refused() {
        for (value, placeholder, wrong) in [
            ("short", None, "value"),
            ("with a space in it", None, "value"),
            ("line\nline\nline", None, "value"),
            ("nachtigällig", None, "value"),
            (VALUE, Some("short"), "placeholder"),
            (VALUE, Some(VALUE), "placeholder"),
        ] {
            let refused = Secret::new("KEY", value, placeholder, Vec::new(), RANDOM).unwrap_err();
            assert_eq!(refused.0, wrong, "{value}");
        }
        let shown = format!("{:?}", secrets());
        assert!(!shown.contains("REAL"), "{shown}");
    }

    #[test]
    fn a_placeholder_is_exchanged_in_the_headers_of_its_own_host_alone() {
        let all = secrets();
        let [model, git] = [&all.0[0].placeholder, &all.0[1].placeholder];
        assert_eq!(on("api.example.com", "/", ("x-api-key", model)).unwrap(), VALUE);
        let bearer = on("api.example.com", "/", ("authorization", &format!("Bearer {model}")));
        assert_eq!(bearer.unwrap(), format!("Bearer {VALUE}"));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let password = on("git.example.com", "/", ("authorization", &basic(&format!("user:{git}"))));
        assert_eq!(password.unwrap(), basic("user:ghp_REALREALREALREALREALREAL"));
        // Not exchanged, and worth nothing.
        assert_eq!(on("api.example.com", &format!("/?key={model}"), ("a", "b")).unwrap(), "b");
        for (uri, header) in [
            ("/", ("x-api-key", model.as_str())),
            ("/", ("authorization", &basic(&format!("user:{model}")))),
            (&format!("/?q={model}"), ("a", "b")),
            ("/", (&format!("x-{}", model.to_ascii_lowercase()), "b")),
        ] {
            for host in ["git.example.com", "other.example.com"] {
                assert_eq!(on(host, uri, header), Err(Leak("MODEL_KEY".into())), "{host} {uri} {header:?}");
            }
        }
        let foreign = |host: &str| all.foreign(&Host::parse(host).unwrap(), 443).len();
        assert_eq!((foreign("api.example.com"), foreign("other.example.com")), (1, 2));
    }

    #[test]
    fn what_holds_a_secret_is_hidden() {
        let all = secrets();
        let hidden = all.hide(format!("a {VALUE} b {VALUE}").as_bytes()).unwrap();
        let placeholder = &all.0[0].placeholder;
        assert_eq!(String::from_utf8(hidden).unwrap(), format!("a {placeholder} b {placeholder}"));
        assert_eq!(all.hide(b"nothing"), None);
        assert!(all.keeps_length());
    }
}
