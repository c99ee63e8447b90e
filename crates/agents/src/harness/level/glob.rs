//! PURE: globs of rules. A star of a command never reaches past the end of a command: `git *` allows `git log`, not
//! `git log; rm -rf .`.
//!
//! | pattern | in a command | in a path | in a name |
//! |---|---|---|---|
//! | `*` | anything but the borders below | anything but `/` | anything |
//! | `**` | as `*` | anything | as `*` |
//! | `?` | as one letter of `*` | as one letter of `*` | one letter |
//!
//! The borders of a command are those of [`shell`](super::shell). A border that the pattern itself writes down is matched like any
//! other letter.

use super::script::GAP;
use super::shell;

/// Whether the whole command is what the pattern means, as it is written.
pub(super) fn command_matches(pattern: &str, command: &str) -> bool {
    let command = command.trim();
    let borders = shell::borders(command);
    matches(pattern.trim(), command, |at, _| !borders[at])
}

/// Whether the text may be what the pattern means; a [`GAP`] may be any text.
pub(super) fn may_match(pattern: &str, text: &str) -> bool {
    matches(pattern, text, |_, _| true)
}

/// Whether the path is what the pattern means.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    matches(pattern, path, |at, is_deep| is_deep || path.as_bytes()[at] != b'/')
}

pub(crate) fn name_matches(pattern: &str, name: &str) -> bool {
    matches(pattern, name, |_, _| true)
}

/// Stars take what `may_take` (position in bytes, whether the star is double) lets them.
fn matches(pattern: &str, text: &str, may_take: impl Fn(usize, bool) -> bool) -> bool {
    let tokens = tokens(pattern);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    // Whether the tokens so far match the text up to each of its letters.
    let mut reached = vec![false; ends.len()];
    reached[0] = true;
    for token in tokens {
        pass_gaps(text, &ends, &mut reached);
        let mut next = vec![false; ends.len()];
        for index in 0..ends.len() {
            let at = ends[index];
            let letter = text[at..].chars().next();
            // Any token may be a part of the gap.
            next[index] |= reached[index] && letter == Some(GAP);
            match token {
                Token::Letter(wanted) => {
                    if reached[index] && letter == Some(wanted) {
                        next[index + 1] = true;
                    }
                }
                Token::Any => {
                    if reached[index] && letter.is_some() && may_take(at, false) {
                        next[index + 1] = true;
                    }
                }
                Token::Star { is_deep } => {
                    next[index] |= reached[index];
                    if next[index] && letter.is_some() && may_take(at, is_deep) {
                        next[index + 1] = true;
                    }
                }
            }
        }
        reached = next;
    }
    pass_gaps(text, &ends, &mut reached);
    reached.last().copied().unwrap_or(false)
}

/// A gap may be nothing.
fn pass_gaps(text: &str, ends: &[usize], reached: &mut [bool]) {
    for index in 1..ends.len() {
        reached[index] |= reached[index - 1] && text[ends[index - 1]..].starts_with(GAP);
    }
}

#[derive(Clone, Copy)]
enum Token {
    Letter(char),
    Any,
    Star { is_deep: bool },
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        tokens.push(match letter {
            '*' => {
                let is_deep = letters.peek() == Some(&'*');
                while letters.peek() == Some(&'*') {
                    letters.next();
                }
                // `src/**/x` means `src/x` too.
                if is_deep && letters.peek() == Some(&'/') && tokens.last().is_none_or(is_slash) {
                    letters.next();
                }
                Token::Star { is_deep }
            }
            '?' => Token::Any,
            other => Token::Letter(other),
        });
    }
    tokens
}

fn is_slash(token: &Token) -> bool {
    matches!(token, Token::Letter('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_one_command() {
        let cases = [
            ("git *", "git log --oneline", true),
            ("git *", "git log > log.txt", false),
            ("git *", "git log >> log.txt", false),
            ("git *", "git log 2> log.txt", false),
            ("git *", "git log >| log.txt", false),
            ("git *", "git log &> all.txt", false),
            ("git *", "git apply < patch", false),
            ("git *", "git apply << E", false),
            ("git * > log.txt", "git log > log.txt", true),
            ("git *", "git log ${x:=`touch hit`}", false),
            ("git *", "git log $x", false),
            ("*", "GIT_EXTERNAL_DIFF=touch git diff", false),
            ("CI=1 *", "CI=1 npm test", true),
            ("git *", "git grep -Otouch\\ hit", false),
            ("git *", "git grep -Otouch hit", false),
            ("git *", "git log --output=/outside", false),
            ("git *", "git commit -m 'one; two > three'", true),
            ("git *", "git commit -m 'one", false),
            ("npm test", "npm test", true),
            ("npm test", "npm test -- --watch", false),
            ("npm test*", "npm test 2>&1", true),
            ("*", "ls", true),
            ("*", "", true),
            ("git *", "git log; rm -rf .", false),
            ("git *", "git log && rm -rf .", false),
            ("git *", "git log || rm -rf .", false),
            ("git *", "git log | sh", false),
            ("git *", "git log & rm -rf .", false),
            ("git *", "git log &", false),
            ("git *", "git log $(rm -rf .)", false),
            ("git *", "git log `rm -rf .`", false),
            ("git *", "git log\nrm -rf .", false),
            ("git *", "git log\r\nrm -rf .", false),
            ("git *", "git diff <(rm -rf .)", false),
            ("git *", "git log >(sh)", false),
            ("*", "true && rm -rf .", false),
            ("git ?", "git ;", false),
            ("git *", "echo; git log", false),
            ("* log*", "git log $(x)", false),
            ("git add * && git commit *", "git add . && git commit -m x", true),
            ("git add * && git commit *", "git add . && git commit -m x && rm y", false),
            ("git *", "gitk", false),
            ("git *", "  git log  ", true),
            ("echo *", "echo äöü", true),
            ("git *", "git log &>all.txt", false),
            ("git *", "git log &&>x rm", false),
        ];
        for (pattern, command, expected) in cases {
            assert_eq!(command_matches(pattern, command), expected, "{pattern:?} {command:?}");
        }
    }

    #[test]
    fn a_star_of_a_path_stays_in_its_folder_and_two_do_not() {
        let cases = [
            ("*.md", "README.md", true),
            ("*.md", "docs/a.md", false),
            ("**/*.md", "docs/a.md", true),
            ("**/*.md", "README.md", true),
            ("src/**", "src/a/b.rs", true),
            ("src/**", "srcs/a", false),
            ("src/**/b.rs", "src/b.rs", true),
            ("src/?.rs", "src/a.rs", true),
            ("src?a.rs", "src/a.rs", false),
            ("**", "any/thing", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(path_matches(pattern, path), expected, "{pattern:?} {path:?}");
        }
    }

    #[test]
    fn a_long_text_and_many_stars_take_no_time() {
        let text = "a".repeat(20_000);
        assert!(!command_matches("*a*a*a*a*a*a*b", &text));
    }
}
