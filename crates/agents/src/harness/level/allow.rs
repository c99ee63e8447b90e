//! PURE: the commands that "edit" may run, as globs in their user's words. In a session our own [`shell`] parser reads them. In a
//! turn they become rules of the CLI's own, each in a language of its own, so only letters that mean themselves in all of these
//! are taken: none that ends a rule, a command or an argument.

use super::Level;
use super::shell;
use ground::error::Error;

/// Besides letters, digits and spaces.
const PLAIN: &str = "._-/:=@+%*";

/// `INVALID_OPTION`, naming the glob, for what no CLI can be told.
pub(crate) fn check(allow: &[String], level: Level) -> Result<(), Error> {
    if !allow.is_empty() && !matches!(level, Level::Edit | Level::Ask) {
        let problem = format!(
            "applies at permission \"edit\" only (in a session also at \"ask\"), not at {:?}: leave it out, or pass []",
            level.as_str()
        );
        return Err(Error::invalid_option("allow", problem));
    }
    for (index, glob) in allow.iter().enumerate() {
        let refuse = |problem: String| Err(Error::invalid_option(&format!("allow[{index}]"), problem));
        if let Some(letter) = glob.chars().find(|letter| !is_plain(*letter)) {
            return refuse(format!(
                "{glob:?} contains {letter:?}: a glob names one command, in letters, digits, spaces and {PLAIN}"
            ));
        }
        if glob.trim() != glob
            || !glob.starts_with(|first: char| first.is_alphanumeric() || "./_*".contains(first))
        {
            return refuse(format!("expected a command such as \"npm test\" or \"git *\", got {glob:?}"));
        }
        if let Some(option) = shell::reaching_option(glob) {
            return refuse(format!(
                "{glob:?} contains the option {option:?}, by which a command writes elsewhere or runs another program: leave it out"
            ));
        }
    }
    Ok(())
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || letter == ' ' || PLAIN.contains(letter)
}

/// A glob that this CLI's rules would read as something else.
pub(crate) fn refuse(index: usize, problem: impl std::fmt::Display) -> Error {
    Error::invalid_option(&format!("allow[{index}]"), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(glob: &str) -> String {
        check(&["ls".into(), glob.into()], Level::Edit)
            .map_or_else(|error| error.message().to_owned(), |()| String::new())
    }

    #[test]
    fn a_glob_names_one_command() {
        for glob in [
            "npm test",
            "git *",
            "CI=1 npm test",
            "npm run test:*",
            "./gradlew check",
            "*",
            "cargo +nightly test",
            "größe",
        ] {
            assert_eq!(problem(glob), "", "{glob}");
        }
    }

    #[test]
    fn nothing_that_ends_a_rule_a_command_or_an_argument_is_taken() {
        let ends = [
            "",
            " ",
            "a;b",
            "a&&b",
            "a|b",
            "a & b",
            "a`b`",
            "a $(b)",
            "a <(b)",
            "a > b",
            "a\nb",
            "a\rb",
            "a\0b",
            "a) Bash(*",
            "a,b",
            "a\"b",
            "a'b",
            "a\\b",
            "-rf",
            "--yolo",
            " a",
            "a ",
            "a?",
            "a[b]",
            "{a}",
            "a#b",
            "~/a",
            "a\u{2028}b",
            "git log --output=*",
            "git grep -O* x",
            "git -c *",
        ];
        for glob in ends {
            assert!(problem(glob).starts_with("allow[1]: "), "{glob:?}: {:?}", problem(glob));
        }
    }

    #[test]
    fn it_counts_at_edit_alone() {
        for level in [Level::Plan, Level::Auto] {
            assert!(check(&["ls".into()], level).unwrap_err().message().starts_with("allow: "));
            assert!(check(&[], level).is_ok());
        }
    }
}
