//! PURE: the rules of a session for its agent's requests.

/// A rule for requests. An absent field matches anything; a rule without any field matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub kind: Option<String>,
    pub name: Option<String>,
    pub command: Option<String>,
    /// A path below the session's folder, or an absolute one.
    pub path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
}
