//! PURE: decides on an agent's permission request: by rules, then by the level. A request that both leave open goes to the
//! handler.
//!
//! | | rule denies | rule allows | `plan` | `edit` | `ask` | `auto` |
//! |---|---|---|---|---|---|---|
//! | reads, searches, thinks | reject | allow | allow | allow | open | allow |
//! | writes below cwd | reject | allow | reject | allow | open | allow |
//! | anything else | reject | allow | reject | open | open | allow |
//!
//! An open request without a handler is rejected. The agent enforces the level by its own mode; these decisions are for requests
//! that it makes nevertheless.

use super::question::Question;
use crate::harness::Level;
use crate::harness::level::glob::{command_contains, command_matches, name_matches, path_matches};
use std::path::{Component, Path, PathBuf};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Allow,
    Reject,
    /// A person decides.
    Open,
}

/// See the table above.
pub(crate) fn rule(policy: &Policy, level: Level, question: &Question, cwd: &Path) -> Ruling {
    if policy.deny.iter().any(|rule| rule.denies(question, cwd)) {
        return Ruling::Reject;
    }
    if policy.allow.iter().any(|rule| rule.allows(question, cwd)) {
        return Ruling::Allow;
    }
    let kind = question.tool.kind.as_str();
    let is_reading = matches!(kind, "read" | "search" | "think");
    let is_writing = matches!(kind, "edit" | "delete" | "move") && is_below(question, cwd);
    match level {
        Level::Auto => Ruling::Allow,
        Level::Ask => Ruling::Open,
        Level::Plan if is_reading => Ruling::Allow,
        Level::Plan => Ruling::Reject,
        Level::Edit if is_reading || is_writing => Ruling::Allow,
        Level::Edit => Ruling::Open,
    }
}

fn is_below(question: &Question, cwd: &Path) -> bool {
    let paths = question.paths();
    !paths.is_empty() && paths.iter().all(|path| below(path, cwd).is_some())
}

impl Rule {
    /// Every path and the whole command has to be meant. The same words mean something else in a folder outside, or with other
    /// variables.
    fn allows(&self, question: &Question, cwd: &Path) -> bool {
        let paths = question.paths();
        let is_here = !question.changes_environment()
            && question.command_folders().all(|folder| below(folder, cwd).is_some());
        self.means(
            question,
            |pattern| is_here && question.command().is_some_and(|command| command_matches(pattern, &command)),
            |pattern| !paths.is_empty() && paths.iter().all(|path| path_is(pattern, path, cwd)),
        )
    }

    /// Any path and any part of the command is enough.
    fn denies(&self, question: &Question, cwd: &Path) -> bool {
        let paths = question.paths();
        self.means(
            question,
            |pattern| question.command().is_some_and(|command| command_contains(pattern, &command)),
            |pattern| paths.iter().any(|path| path_is(pattern, path, cwd)),
        )
    }

    fn means(
        &self,
        question: &Question,
        command: impl Fn(&str) -> bool,
        path: impl Fn(&str) -> bool,
    ) -> bool {
        let is_empty = *self == Rule::default();
        let name =
            |pattern: &String| question.tool.name.as_ref().is_some_and(|name| name_matches(pattern, name));
        !is_empty
            && self.kind.as_ref().is_none_or(|kind| *kind == question.tool.kind)
            && self.name.as_ref().is_none_or(name)
            && self.command.as_ref().is_none_or(|pattern| command(pattern))
            && self.path.as_ref().is_none_or(|pattern| path(pattern))
    }
}

fn path_is(pattern: &str, path: &str, cwd: &Path) -> bool {
    if pattern.starts_with('/') {
        return path_matches(pattern, &plain(path, cwd).to_string_lossy());
    }
    below(path, cwd)
        .is_some_and(|path| path_matches(pattern.trim_start_matches("./"), &path.to_string_lossy()))
}

/// The path from `cwd` on, if it leads there.
fn below(path: &str, cwd: &Path) -> Option<PathBuf> {
    plain(path, cwd).strip_prefix(plain(&cwd.to_string_lossy(), Path::new("/"))).ok().map(Path::to_path_buf)
}

/// Absolute, without `.` and `..`. By its letters alone: where links lead is not looked at.
fn plain(path: &str, cwd: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn question(call: Value) -> Question {
        let mut call = call;
        call["toolCallId"] = json!("1");
        Question::read("0", &json!({ "toolCall": call, "options": [] }), |_| None)
    }

    fn command(command: &str) -> Question {
        question(json!({"kind":"execute","title":command,"rawInput":{"command":command}}))
    }

    fn by_command(pattern: &str) -> Rule {
        Rule { command: Some(pattern.into()), ..Rule::default() }
    }

    fn ruled(policy: &Policy, level: Level, question: &Question) -> Ruling {
        rule(policy, level, question, Path::new("/work"))
    }

    #[test]
    fn deny_comes_before_allow_and_both_before_the_level() {
        let policy = Policy { allow: vec![by_command("git *")], deny: vec![by_command("git push*")] };
        let cases = [
            ("git log", Level::Plan, Ruling::Allow),
            ("git push -f", Level::Auto, Ruling::Reject),
            ("git log; git push", Level::Ask, Ruling::Reject),
            ("git log; ls", Level::Ask, Ruling::Open),
            ("ls", Level::Edit, Ruling::Open),
            ("ls", Level::Plan, Ruling::Reject),
            ("ls", Level::Auto, Ruling::Allow),
        ];
        for (words, level, expected) in cases {
            assert_eq!(ruled(&policy, level, &command(words)), expected, "{words} {level:?}");
        }
    }

    #[test]
    fn an_allowed_command_runs_here_and_with_the_variables_that_are() {
        let policy = Policy { allow: vec![by_command("git add *")], deny: vec![] };
        let with = |name: &str, value: Value| {
            let input = json!({"command":"git add x", name: value});
            question(json!({"kind":"execute","title":"x","rawInput":input}))
        };
        for (name, value, expected) in [
            ("timeout", json!(5), Ruling::Allow),
            ("workdir", json!("/work/sub"), Ruling::Allow),
            ("workdir", json!("sub"), Ruling::Allow),
            ("env", json!({}), Ruling::Allow),
            ("workdir", json!("/elsewhere"), Ruling::Open),
            ("cwd", json!("../elsewhere"), Ruling::Open),
            ("directory", json!("/work/../elsewhere"), Ruling::Open),
            ("env", json!({"GIT_EXTERNAL_DIFF":"touch"}), Ruling::Open),
            ("env", json!(["A=1"]), Ruling::Open),
        ] {
            assert_eq!(ruled(&policy, Level::Edit, &with(name, value.clone())), expected, "{name} {value}");
        }
    }

    #[test]
    fn edit_writes_below_its_folder_and_nowhere_else() {
        let edit = |path: &str| question(json!({"kind":"edit","title":"x","locations":[{"path":path}]}));
        let none = Policy::default();
        for (path, expected) in [
            ("/work/a.txt", Ruling::Allow),
            ("a/b.txt", Ruling::Allow),
            ("/work/../etc/passwd", Ruling::Open),
            ("/workshop/a", Ruling::Open),
            ("../a", Ruling::Open),
        ] {
            assert_eq!(ruled(&none, Level::Edit, &edit(path)), expected, "{path}");
        }
        assert_eq!(
            ruled(&none, Level::Edit, &question(json!({"kind":"edit"}))),
            Ruling::Open,
            "no path, no proof"
        );
        assert_eq!(ruled(&none, Level::Plan, &edit("a")), Ruling::Reject);
        assert_eq!(ruled(&none, Level::Plan, &question(json!({"kind":"read"}))), Ruling::Allow);
        assert_eq!(ruled(&none, Level::Plan, &question(json!({"kind":"switch_mode"}))), Ruling::Reject);
    }

    #[test]
    fn rules_by_path_kind_and_name() {
        let write =
            |path: &str| question(json!({"kind":"edit","name":"Write","rawInput":{"file_path":path}}));
        let docs =
            Policy { allow: vec![Rule { path: Some("docs/**".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&docs, Level::Ask, &write("/work/docs/a/b.md")), Ruling::Allow);
        assert_eq!(ruled(&docs, Level::Ask, &write("docs/../src/a.rs")), Ruling::Open);
        let both = question(json!({"kind":"edit","locations":[{"path":"docs/a"},{"path":"src/a"}]}));
        assert_eq!(ruled(&docs, Level::Ask, &both), Ruling::Open, "all of them have to be meant");
        let secrets =
            Policy { allow: vec![], deny: vec![Rule { path: Some("**/.env".into()), ..Rule::default() }] };
        assert_eq!(ruled(&secrets, Level::Auto, &write("a/.env")), Ruling::Reject);
        let tools =
            Policy { allow: vec![Rule { name: Some("Wr*".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&tools, Level::Ask, &write("x")), Ruling::Allow);
        let kinds =
            Policy { allow: vec![Rule { kind: Some("read".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&kinds, Level::Ask, &write("x")), Ruling::Open);
        let empty = Policy { allow: vec![Rule::default()], deny: vec![] };
        assert_eq!(
            ruled(&empty, Level::Ask, &write("x")),
            Ruling::Open,
            "a rule that says nothing means nothing"
        );
    }

    #[test]
    fn gemini_names_its_command_in_the_title() {
        let policy = Policy { allow: vec![by_command("echo *")], deny: vec![] };
        let titled = |title: &str| question(json!({"kind":"execute","title":title}));
        assert_eq!(ruled(&policy, Level::Ask, &titled("echo x y")), Ruling::Allow);
        assert_eq!(ruled(&policy, Level::Ask, &titled("echo x > f.txt")), Ruling::Open);
        assert_eq!(
            ruled(&policy, Level::Ask, &question(json!({"kind":"other","title":"echo x"}))),
            Ruling::Open
        );
    }
}
