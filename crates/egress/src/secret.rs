//! Secrets that a program uses and never holds. PURE.
//!
//! The program has a placeholder. It becomes the secret in the values of headers, on the way to the secret's own hosts. To any
//! other host it must not go at all: a program that sends it there was told to take the secret away.

use crate::caller::encoded_target;
use crate::host::{Host, Hosts, Rule};
use crate::search::{Needle, Texts};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use std::fmt;
use std::sync::Arc;

/// A shorter one would be found where it is not meant.
const LEAST_BYTES: usize = 8;
/// Random characters of a placeholder, at least.
const RANDOM: usize = 8;
/// Beginnings by which programs tell kinds of keys apart. They are public, and say nothing about the key. A longer one stands
/// before those that it begins with.
#[rustfmt::skip]
const KINDS: [&str; 40] = [
    "sk-ant-api03-", "sk-ant-oat01-", "sk-ant-admin01-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk-lf-", "pk-lf-",
    "sk-", "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "xoxb-", "xoxp-", "xapp-", "xox", "npm_", "pypi-",
    "hf_", "AIza", "ya29.", "gsk_", "xai-", "nvapi-", "AKIA", "ASIA", "rk_live_", "sk_live_", "sk_test_", "pk_live_", "pk_test_",
    "dckr_pat_", "shpat_", "lin_api_", "eyJ",
];

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

/// The same kind and length, and else random. A short one is of no kind, so that enough of it is random.
fn made_like(value: &str, random: &str) -> String {
    let is_own = |kind: &&str| value.starts_with(kind) && value.len() - kind.len() >= RANDOM;
    let kind = KINDS.into_iter().find(is_own).unwrap_or_default();
    kind.chars().chain(random.chars().cycle()).take(value.len()).collect()
}

/// Whether a program needs a variable of this name for something else than a secret: to find programs and libraries, or this proxy.
pub fn is_taken(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    // Those of Sheepdog itself tell which tree a process is of, and how deep.
    ["PATH", "HOME", "NODE_OPTIONS", "SHEEPDOG_RUN", "SHEEPDOG_DEPTH"].contains(&upper.as_str())
        || ["LD_", "DYLD_"].iter().any(|start| upper.starts_with(start))
        || upper.ends_with("_PROXY")
        || crate::authority::is_variable(name)
}

/// A placeholder on the way to a host that its secret is not for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leak(pub String);

/// All secrets of a program.
#[derive(Clone, Debug)]
pub struct Secrets {
    all: Vec<Secret>,
    /// The values, in whose place come the placeholders.
    values: Arc<Texts>,
    /// The placeholders, which must not pass.
    placeholders: Arc<Texts>,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Secrets) -> bool {
        self.all == other.all
    }
}

impl Eq for Secrets {}

impl Default for Secrets {
    fn default() -> Secrets {
        Secrets::of(Vec::new())
    }
}

impl Secrets {
    /// # Errors
    /// The name of a secret whose placeholder is a part of another one's text, or the other way round: the result of an exchange would
    /// depend on the order.
    pub fn new(all: Vec<Secret>) -> Result<Secrets, String> {
        let is_part = |one: &str, other: &str| one.contains(other) || other.contains(one);
        let meet = |one: &Secret, other: &Secret| {
            is_part(&one.placeholder, &other.placeholder)
                || is_part(&one.placeholder, &other.value)
                || is_part(&one.value, &other.placeholder)
        };
        let met = |(at, secret): &(usize, &Secret)| all.iter().take(*at).any(|before| meet(before, secret));
        match all.iter().enumerate().find(met) {
            Some((_, secret)) => Err(secret.name.clone()),
            None => Ok(Secrets::of(all)),
        }
    }

    fn of(all: Vec<Secret>) -> Secrets {
        let values = Texts::new(all.iter().map(|secret| Needle {
            text: secret.value.clone().into_bytes(),
            replacement: Some(secret.placeholder.clone().into_bytes()),
        }));
        let placeholders = Texts::new(all.iter().map(Secret::needle));
        Secrets { all, values, placeholders }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Secret> {
        self.all.iter()
    }

    /// Whether a secret is for this host.
    pub(crate) fn has_for(&self, host: &Host, port: u16) -> bool {
        self.all.iter().any(|secret| secret.is_for(host, port))
    }

    /// Puts the secrets into the headers of a request to this host. Returns what an answer to it must not repeat.
    pub(crate) fn exchange(
        &self,
        host: &Host,
        port: u16,
        uri: &Uri,
        headers: &mut HeaderMap,
    ) -> Result<Arc<Texts>, Leak> {
        let mut hidden = self.hidden(host, port);
        let target = uri.path_and_query().map_or("", |path| path.as_str());
        for secret in &self.all {
            let placeholder = &secret.placeholder;
            let is_own = secret.is_for(host, port);
            let in_name = |name: &str| name.contains(&placeholder.to_ascii_lowercase());
            // The target's odd characters were encoded.
            let in_target = target.contains(placeholder) || target.contains(&encoded_target(placeholder));
            if !is_own && (in_target || headers.keys().any(|name| in_name(name.as_str()))) {
                return Err(Leak(secret.name.clone()));
            }
            for value in headers.values_mut() {
                let Some(exchanged) = exchanged(value.as_bytes(), secret) else { continue };
                if !is_own {
                    return Err(Leak(secret.name.clone()));
                }
                if let Ok(mut sent) = HeaderValue::from_bytes(&exchanged.value) {
                    sent.set_sensitive(true);
                    *value = sent;
                    if let Some(encoded) = exchanged.encoded {
                        hidden = hidden.with(encoded);
                    }
                }
            }
        }
        Ok(hidden)
    }

    /// The placeholders that must not be in a body that goes to this host.
    pub(crate) fn foreign(&self, host: &Host, port: u16) -> Arc<Texts> {
        if !self.has_for(host, port) {
            return self.placeholders.clone();
        }
        Texts::new(self.all.iter().filter(|secret| !secret.is_for(host, port)).map(Secret::needle))
    }

    /// Hides secrets in the headers of an answer.
    pub(crate) fn hide_in(&self, headers: &mut HeaderMap, hidden: &Texts) {
        for value in headers.values_mut() {
            if let Some(hidden) = hidden.replaced(value.as_bytes())
                && let Ok(hidden) = HeaderValue::from_bytes(&hidden)
            {
                *value = hidden;
            }
        }
        // Names are in lower case, as many keys are.
        let values: Vec<String> = self.all.iter().map(|secret| secret.value.to_ascii_lowercase()).collect();
        let holds = |name: &&HeaderName| values.iter().any(|value| name.as_str().contains(value));
        let names: Vec<HeaderName> = headers.keys().filter(holds).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// Texts that an answer of this host must not repeat. Only the host's own secrets may change its length: where the placeholder of another
    /// one is longer or shorter, a part of it is shown, or it is filled up.
    fn hidden(&self, host: &Host, port: u16) -> Arc<Texts> {
        let is_equal = |secret: &Secret| secret.value.len() == secret.placeholder.len();
        if self.all.iter().all(is_equal) {
            return self.values.clone();
        }
        Texts::new(self.all.iter().map(|secret| {
            let shown = secret.placeholder.bytes().chain(std::iter::repeat(b'-'));
            let length =
                if secret.is_for(host, port) { secret.placeholder.len() } else { secret.value.len() };
            Needle {
                text: secret.value.clone().into_bytes(),
                replacement: Some(shown.take(length).collect()),
            }
        }))
    }

    /// Whether an answer of this host keeps its length.
    pub(crate) fn keeps_length(&self, host: &Host, port: u16) -> bool {
        let mut own = self.all.iter().filter(|secret| secret.is_for(host, port));
        own.all(|secret| secret.value.len() == secret.placeholder.len())
    }

    /// The text with placeholders in the place of secrets; `None` without a secret in it.
    #[must_use]
    pub fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.values.replaced(text)
    }
}

/// The value of a header with the secret in it.
struct Exchanged {
    value: Vec<u8>,
    /// The secret in another form than its own, which is hidden in the answer, too.
    encoded: Option<Needle>,
}

/// `None` if the placeholder is not in the value.
fn exchanged(value: &[u8], secret: &Secret) -> Option<Exchanged> {
    let (placeholder, own) = (secret.placeholder.as_bytes(), secret.value.as_bytes());
    if let Some(value) = replaced(value, placeholder, own) {
        return Some(Exchanged { value, encoded: None });
    }
    // A password is encoded, together with the name of its user.
    let (scheme, given) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let given = given.trim_ascii();
    let decoded = STANDARD.decode(given).ok()?;
    let encoded = STANDARD.encode(replaced(&decoded, placeholder, own)?).into_bytes();
    let value = [scheme, &encoded].concat();
    Some(Exchanged { value, encoded: Some(Needle { text: encoded, replacement: Some(given.to_vec()) }) })
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
    use crate::search::Search;
    use bytes::Bytes;
    use hyper::header::AUTHORIZATION;

    const VALUE: &str = "sk-ant-api03-REALREALREALREALREAL";
    const RANDOM: &str = "Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp";

    fn secret(name: &str, value: &str, host: &str) -> Secret {
        Secret::new(name, value, None, vec![Rule::parse(host).unwrap()], RANDOM).unwrap()
    }

    fn secrets() -> Secrets {
        Secrets::of(vec![
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
            // Its parts are no kind.
            ("hunter2-secret-1-of-mine", ""),
            ("123e4567-e89b-12d3-a456-426614174000", ""),
            ("xoxb-1234567890-1234567890123-AbCdEf", "xoxb-"),
        ] {
            let placeholder = secret("KEY", value, "a.example").placeholder;
            assert_eq!(placeholder.len(), value.len(), "{value}");
            assert!(placeholder.starts_with(kind), "{placeholder}");
            let same = placeholder.bytes().zip(value.bytes()).take_while(|(one, other)| one == other).count();
            // A random character may be the same by chance.
            assert!(same <= kind.len() + 3, "{placeholder} shows {same} bytes of {value}");
        }
        for (at, kind) in KINDS.iter().enumerate() {
            let is_hidden = KINDS.iter().take(at).any(|before| kind.starts_with(before));
            assert!(!is_hidden, "{kind} is never found");
        }
        // Short ones keep their length, too.
        for value in ["87654321", "sk-54321", "sk-ant-4321", "sk-ant-api03-1"] {
            let placeholder = secret("KEY", value, "a.example").placeholder;
            assert_eq!(placeholder.len(), value.len(), "{placeholder}");
        }
    }

    #[test]
    fn a_variable_that_programs_need_holds_no_secret() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "https_proxy",
            "NO_PROXY",
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "SHEEPDOG_RUN",
        ] {
            assert!(is_taken(name), "{name}");
        }
        for name in ["OPENAI_API_KEY", "PATHS", "PROXY_KEY", "GH_TOKEN", "SHEEPDOG_RUNTIME_TOKEN"] {
            assert!(!is_taken(name), "{name}");
        }
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
    fn a_placeholder_is_a_part_of_no_other_text() {
        let listed = |one: (&str, &str), other: (&str, &str)| {
            let secret = |name, (value, placeholder)| {
                Secret::new(name, value, Some(placeholder), Vec::new(), RANDOM).unwrap()
            };
            Secrets::new(vec![secret("ONE", one), secret("OTHER", other)]).map(drop)
        };
        let own = ("value-of-one", "placeholder-of-one");
        assert_eq!(listed(own, ("value-of-other", "placeholder-of-other")), Ok(()));
        // A value may be a part of another one.
        assert_eq!(listed(own, ("value-of-one:more", "placeholder-of-other")), Ok(()));
        for other in [
            ("value-of-other", "placeholder-of-one"),
            ("value-of-other", "placeholder-of-one-and-more"),
            ("value-of-other", "placeholder"),
            ("placeholder-of-one", "another-text"),
            ("my-placeholder-of-one", "another-text"),
            ("value-of-other", "value-of-one"),
            ("value-of-other", "the-value-of-one"),
        ] {
            assert_eq!(listed(own, other), Err("OTHER".to_owned()), "{other:?}");
        }
    }

    #[test]
    fn a_placeholder_is_exchanged_in_the_headers_of_its_own_host_alone() {
        let all = secrets();
        let [model, git] = [&all.all[0].placeholder, &all.all[1].placeholder];
        assert_eq!(on("api.example.com", "/", ("x-api-key", model)).unwrap(), VALUE);
        let bearer = on("api.example.com", "/", ("authorization", &format!("Bearer {model}")));
        assert_eq!(bearer.unwrap(), format!("Bearer {VALUE}"));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let password = on("git.example.com", "/", ("authorization", &basic(&format!("user:{git}"))));
        assert_eq!(password.unwrap(), basic("user:ghp_REALREALREALREALREALREAL"));
        // An answer that repeats the header shows what the program sent.
        let given = basic(&format!("user:{git}"));
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, given.parse().unwrap())]);
        let own = Host::parse("git.example.com").unwrap();
        let needles = all.exchange(&own, 443, &"/".parse().unwrap(), &mut headers).unwrap();
        all.hide_in(&mut headers, &needles);
        assert_eq!(headers[AUTHORIZATION], given);
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
        let foreign = |host: &str| all.foreign(&Host::parse(host).unwrap(), 443);
        let holds = |host: &str, text: &str| {
            Search::new(foreign(host)).push(Bytes::from(format!("{text}."))).is_err()
        };
        assert!(holds("api.example.com", git) && !holds("api.example.com", model));
        assert!(holds("other.example.com", git) && holds("other.example.com", model));
    }

    #[test]
    fn what_holds_a_secret_is_hidden() {
        let all = secrets();
        let hidden = all.hide(format!("a {VALUE} b {VALUE}").as_bytes()).unwrap();
        let placeholder = &all.all[0].placeholder;
        assert_eq!(String::from_utf8(hidden).unwrap(), format!("a {placeholder} b {placeholder}"));
        assert_eq!(all.hide(b"nothing"), None);
        // One that begins with another.
        let bot = "123456789:AAsecretSECRETsecret";
        let bot =
            Secret::new("BOT", bot, None, vec![Rule::parse("a.example").unwrap()], "anotherOne").unwrap();
        let nested = Secrets::new(vec![secret("ID", "123456789", "a.example"), bot]).unwrap();
        let hidden = nested.hide(b"/bot123456789:AAsecretSECRETsecret/123456789").unwrap();
        let [id, bot] = [&nested.all[0].placeholder, &nested.all[1].placeholder];
        assert_eq!(String::from_utf8(hidden).unwrap(), format!("/bot{bot}/{id}"));
    }

    #[test]
    fn the_length_of_an_answer_is_kept_where_its_own_secrets_keep_it() {
        let rule = |host: &str| vec![Rule::parse(host).unwrap()];
        let longer =
            Secret::new("B", "value-of-b", Some("placeholder-of-b"), rule("b.example"), RANDOM).unwrap();
        let all = Secrets::new(vec![secret("A", VALUE, "a.example"), longer]).unwrap();
        let [one, other] = ["a.example", "b.example"].map(|host| Host::parse(host).unwrap());
        assert!(all.keeps_length(&one, 443) && !all.keeps_length(&other, 443));
        let shown = |host: &Host| all.hidden(host, 443).replaced(b"value-of-b").unwrap();
        assert_eq!((shown(&one), shown(&other)), (b"placeholde".to_vec(), b"placeholder-of-b".to_vec()));
    }
}
