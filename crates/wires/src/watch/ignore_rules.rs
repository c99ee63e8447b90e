//! PURE rules for ignored files: gitignore syntax, relative to a watched directory.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::{Component, Path};

/// The file at the top of a watched directory that holds its rules. It is never reported itself.
pub const IGNORE_FILE: &str = ".artifactignore";

/// Prefix of the unfinished files and directories that this package creates. They are never reported.
pub const UNFINISHED_PREFIX: &str = ".sheepdog-download-";

/// The default rules.
pub const DEFAULT_RULES: &str =
    "node_modules/\n.venv/\n.env/\nenv/\nvenv/\ndist/\n__pycache__/\n__pytest_cache__/\n.pytest_cache/\n";

#[derive(Clone, Debug)]
pub struct IgnoreRules(Gitignore);

impl IgnoreRules {
    /// Parses rules. An invalid line is skipped; the other lines apply.
    pub fn parse(text: &str) -> IgnoreRules {
        let mut builder = GitignoreBuilder::new("");
        for line in text.trim_start_matches('\u{feff}').lines() {
            // A line's error concerns only this line.
            let _ = builder.add_line(None, line);
        }
        // Some rules are valid as lines and fail when compiled. Such a rule would disable all others.
        IgnoreRules(builder.build().unwrap_or_else(|_| without_broken(text)))
    }

    /// Whether a path below the directory is ignored, by itself or with a directory above it.
    pub fn leaves_out(&self, relative: &Path, is_dir: bool) -> bool {
        let is_unfinished = |part: Component<'_>| {
            part.as_os_str().as_encoded_bytes().starts_with(UNFINISHED_PREFIX.as_bytes())
        };
        relative == Path::new(IGNORE_FILE)
            || relative.components().any(is_unfinished)
            || (!relative.has_root() && self.0.matched_path_or_any_parents(relative, is_dir).is_ignore())
    }
}

/// The rules that compile when each is tried alone.
fn without_broken(text: &str) -> Gitignore {
    let mut all = GitignoreBuilder::new("");
    for line in text.lines() {
        let mut alone = GitignoreBuilder::new("");
        if alone.add_line(None, line).is_ok() && alone.build().is_ok() {
            // Adding the line succeeded before, so it succeeds again.
            let _ = all.add_line(None, line);
        }
    }
    all.build().unwrap_or_else(|_| Gitignore::empty())
}

impl Default for IgnoreRules {
    fn default() -> Self {
        IgnoreRules::parse(DEFAULT_RULES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_leave_out_what_package_managers_make() {
        let rules = IgnoreRules::default();
        assert!(rules.leaves_out(Path::new("node_modules"), true));
        assert!(rules.leaves_out(Path::new("a/node_modules/b/c.js"), false));
        assert!(rules.leaves_out(Path::new(".artifactignore"), false));
        assert!(!rules.leaves_out(Path::new("sub/.artifactignore"), false));
        assert!(!rules.leaves_out(Path::new("dist"), false), "a file of that name");
        assert!(!rules.leaves_out(Path::new("..foo"), false));
        assert!(!rules.leaves_out(Path::new(".hidden"), false));
    }

    #[test]
    fn an_empty_text_leaves_out_nothing_and_exceptions_hold() {
        assert!(!IgnoreRules::parse("").leaves_out(Path::new("node_modules/a"), false));
        let rules = IgnoreRules::parse("*.log\n!keep.log\n/top\nsecret/**\n[broken\n");
        assert!(rules.leaves_out(Path::new("a/b.log"), false));
        assert!(!rules.leaves_out(Path::new("keep.log"), false));
        assert!(rules.leaves_out(Path::new("top"), false));
        assert!(!rules.leaves_out(Path::new("sub/top"), false));
        assert!(rules.leaves_out(Path::new("secret/x"), false));
    }

    #[test]
    fn a_rule_that_can_not_be_compiled_takes_no_other_with_it() {
        let nested = format!("*.log\n{}a{}\n*.tmp\n", "{".repeat(300), "}".repeat(300));
        let rules = IgnoreRules::parse(&nested);
        assert!(rules.leaves_out(Path::new("a.log"), false) && rules.leaves_out(Path::new("a.tmp"), false));
        assert!(!rules.leaves_out(Path::new("kept"), false));
    }

    #[test]
    fn what_is_still_being_loaded_is_no_file_of_anybody() {
        let rules = IgnoreRules::parse("");
        assert!(rules.leaves_out(Path::new("in/.sheepdog-download-1-2"), false));
        assert!(rules.leaves_out(Path::new(".sheepdog-download-1-2/a"), false));
    }
}
