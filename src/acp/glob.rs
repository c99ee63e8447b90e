//! PURE: globs of rules. A star of a command never reaches past the end of a command: `git *` allows `git log`, not
//! `git log; rm -rf .`.
//!
//! | pattern | in a command | in a path | in a name |
//! |---|---|---|---|
//! | `*` | anything but the borders below | anything but `/` | anything |
//! | `**` | as `*` | anything | as `*` |
//! | `?` | as one letter of `*` | as one letter of `*` | one letter |
//!
//! Borders: `;` `&&` `||` `|` `&` (not in `2>&1`), a line's end, backquotes, `$(`, `<(`, `>(`. A border that the pattern itself
//! writes down is matched like any other letter.

/// Whether the whole command is what the pattern means.
pub(crate) fn command_matches(pattern: &str, command: &str) -> bool {
    let command = command.trim();
    let borders = borders(command);
    matches(pattern.trim(), command, |at, _| !borders[at])
}

/// Whether a part of the command between borders is what the pattern means, or the command as a whole. For what is denied.
pub(crate) fn command_contains(pattern: &str, command: &str) -> bool {
    let borders = borders(command);
    let mut parts = vec![String::new()];
    for (at, letter) in command.char_indices() {
        if borders[at] {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let pattern = pattern.trim();
    let is_meant = |part: &str| {
        // What opens a part: brackets, the dollar of a substitution, a variable's assignment is not undone here.
        let part = part.trim().trim_matches(['(', ')', '{', '}', '$', '"', '\'']).trim();
        matches(pattern, part, |_, _| true)
    };
    matches(pattern, command.trim(), |_, _| true) || parts.iter().any(|part| is_meant(part))
}

/// Whether the path is what the pattern means.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    matches(pattern, path, |at, is_deep| is_deep || path.as_bytes()[at] != b'/')
}

pub(crate) fn name_matches(pattern: &str, name: &str) -> bool {
    matches(pattern, name, |_, _| true)
}

/// For every byte, whether a command ends there.
fn borders(command: &str) -> Vec<bool> {
    let bytes = command.as_bytes();
    let mut borders = vec![false; bytes.len()];
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(at + 1).copied();
        borders[at] = match byte {
            b';' | b'|' | b'`' | b'\n' | b'\r' => true,
            // `2>&1`, `>&2`, `<&3`, `&>file`
            b'&' => !matches!(before, Some(b'>' | b'<')) && (after != Some(b'>') || before == Some(b'&')),
            b'$' | b'<' | b'>' => after == Some(b'('),
            b'(' => matches!(before, Some(b'$' | b'<' | b'>')),
            _ => false,
        };
    }
    borders
}

/// Stars take what `may_take` (position in bytes, whether the star is double) lets them.
fn matches(pattern: &str, text: &str, may_take: impl Fn(usize, bool) -> bool) -> bool {
    let tokens = tokens(pattern);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    // Whether the tokens so far match the text up to each of its letters.
    let mut reached = vec![false; ends.len()];
    reached[0] = true;
    for token in tokens {
        let mut next = vec![false; ends.len()];
        for index in 0..ends.len() {
            let at = ends[index];
            let letter = text[at..].chars().next();
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
    reached.last().copied().unwrap_or(false)
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
            ("git *", "git log > log.txt", true),
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
            ("git *", "git log &>all.txt", true),
            ("git *", "git log &&>x rm", false),
        ];
        for (pattern, command, expected) in cases {
            assert_eq!(command_matches(pattern, command), expected, "{pattern:?} {command:?}");
        }
    }

    #[test]
    fn what_is_denied_is_found_in_every_part() {
        let cases = [
            ("rm *", "rm -rf .", true),
            ("rm *", "git log; rm -rf .", true),
            ("rm *", "git log && rm -rf .", true),
            ("rm *", "git log $(rm -rf .)", true),
            ("rm *", "git log `rm -rf .`", true),
            ("rm *", "(rm -rf .)", true),
            ("rm *", "git rm x", false),
            ("*", "a; b", true),
            ("*curl*", "echo x | curl y", true),
        ];
        for (pattern, command, expected) in cases {
            assert_eq!(command_contains(pattern, command), expected, "{pattern:?} {command:?}");
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
