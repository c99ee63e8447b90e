//! PURE: the line of a program's stderr that says why it ended.

use super::failure::without_colors;
use crate::harness::clip::clip_to;

/// Longest line that is told, in bytes.
const MAX_BYTES: usize = 400;

/// The first line that names an error, without colours; where none does, the last line that says anything.
pub(crate) fn reason_line(stderr: &str) -> Option<String> {
    let plain = without_colors(stderr);
    let lines = || plain.lines().map(str::trim).filter(|line| says_something(line));
    let mut errors = lines().skip_while(|line| !names_an_error(line));
    let line = errors.next().or_else(|| lines().next_back())?;
    // A line that ends with a colon, as "Error loading the settings:", goes on in the next one.
    let more = errors.next().filter(|_| line.ends_with(':'));
    let whole = more.map_or_else(|| line.to_owned(), |more| format!("{line} {more}"));
    Some(clip_to(&whole, MAX_BYTES).into_owned())
}

/// No frame of a stack, no caret below a line of code, no rule, no version that follows a crash of Node.
fn says_something(line: &str) -> bool {
    let words = line.trim_start_matches(['|', ' ']);
    let is_rule = !words.chars().any(char::is_alphanumeric)
        || (words.starts_with("---") && words.ends_with("---"))
        || (words.starts_with("===") && words.ends_with("==="));
    let is_frame = ["at ", "node:internal/", "Node.js v"].iter().any(|sign| words.starts_with(sign));
    !is_rule && !is_frame
}

fn names_an_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    // "Error", "TypeError", "[ERROR]", "ConfigInvalidError"; not "errors: 0" or a warning.
    let signs =
        ["error", "fatal", "panic", "cannot ", "can't ", "invalid ", "not found", "failed", "exception"];
    let is_harmless = line.starts_with("warning")
        || line.contains("warn]")
        || line.contains("no error")
        || line.contains("0 errors");
    !is_harmless && signs.iter().any(|sign| line.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_the_error_is_found() {
        for (stderr, expected) in [
            (
                "node:internal/modules/esm/resolve:283\n    throw new ERR_MODULE_NOT_FOUND(\n          ^\n\nError [ERR_MODULE_NOT_FOUND]: Cannot find package 'yargs' imported from /a/b.js\n    at packageResolve (node:internal/modules/esm/resolve:839:9)\n  code: 'ERR_MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2\n",
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'yargs' imported from /a/b.js",
            ),
            (
                "Error loading config.toml:\n/home/me/.codex/config.toml:1:7: key with no value, expected `=`\n  |\n1 | broken\n  |       ^\n",
                "Error loading config.toml: /home/me/.codex/config.toml:1:7: key with no value, expected `=`",
            ),
            (
                "Error: Config file at /home/me/opencode.json is not valid JSON(C):\n--- JSONC Input ---\n{ broken\n--- Errors ---\nInvalidSymbol at line 1, column 3\n--- End ---\n",
                "Error: Config file at /home/me/opencode.json is not valid JSON(C): { broken",
            ),
            ("\u{1b}[91mError: \u{1b}[0mModel not found: fake/none.\n", "Error: Model not found: fake/none."),
            ("Reading additional input from stdin...\nplain words\n   ^^^\n", "plain words"),
            ("warning: no error here\nlast words\nNode.js v22.1.0\n", "last words"),
        ] {
            assert_eq!(reason_line(stderr).as_deref(), Some(expected));
        }
        assert_eq!(reason_line("\n  ^\n----\nNode.js v20.0.0\n"), None);
    }
}
