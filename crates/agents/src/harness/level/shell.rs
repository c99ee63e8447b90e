//! PURE: the borders of a command, which a star of an allowed glob never matches. Any text that this file does not understand is a
//! border. The programs that a command runs are found by [`command`](super::command).
//!
//! | border | because |
//! |---|---|
//! | `;` `&` `\|` `(` `)`, a control character other than a tab | another command begins or ends |
//! | `<` `>` `>>` `&>` `2>` `>\|` `<<`, except `2>&1` and its like | a file is read or written |
//! | `$` and a backquote, except in single quotes | the shell puts something else in its place |
//! | all from a backslash on, except in single quotes before a plain letter; from a curly quote, or a quote that is not closed | shells disagree |
//! | `!` before a letter, except in single quotes; a leading `^` | an interactive shell puts an earlier command in its place |
//! | `NAME=value` before the program | variables make programs run others (`GIT_EXTERNAL_DIFF`) |
//! | an option of git that writes a file or runs a program | see [`reaches`] |

use super::script::is_assignment;
use std::ops::Range;

/// For each byte of the command, whether it belongs to a border.
pub(crate) fn borders(command: &str) -> Vec<bool> {
    let mut reading = Reading { borders: vec![false; command.len()], ..Reading::default() };
    reading.read(command);
    reading.borders
}

#[derive(Default)]
struct Reading {
    borders: Vec<bool>,
    /// The open quote, and its position.
    quote: Option<(char, usize)>,
    word: Option<Word>,
    /// Words so far of the simple command that is being read.
    words: Vec<Word>,
}

#[derive(Default)]
struct Word {
    place: Range<usize>,
    /// Without its quotes.
    text: String,
    is_quoted: bool,
    /// Length of `text` before the first letter that the shell replaces by names of files, or by several words.
    expands_at: Option<usize>,
}

impl Reading {
    fn read(&mut self, command: &str) {
        let mut skipped = 0;
        for (at, letter) in command.char_indices() {
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            let rest = &command[at + letter.len_utf8()..];
            match (self.quote.map(|(quote, _)| quote), letter) {
                (_, letter) if letter.is_control() && letter != '\t' => self.border_between(at, letter),
                (Some('\''), '\\') if !rest.starts_with(['\'', '\\']) => self.letter(at, letter, false),
                (Some('\''), '$' | '`' | '!') => self.letter(at, letter, false),
                (_, '\\' | '\u{2018}'..='\u{201f}') => {
                    self.quote.get_or_insert((letter, at)).1 = at;
                    break;
                }
                (_, '!') if rest.is_empty() || rest.starts_with([' ', '\t', '=']) => {
                    self.letter(at, letter, false)
                }
                (None, '^') if at > 0 => self.letter(at, letter, false),
                (_, '$' | '`' | '!') | (None, '^') => {
                    self.letter(at, letter, false);
                    self.mark(at..at + 1);
                }
                (Some(quote), letter) if letter == quote => self.quote = None,
                (Some(_), letter) => self.letter(at, letter, false),
                (None, '\'' | '"') => {
                    self.quote = Some((letter, at));
                    self.word_at(at).is_quoted = true;
                }
                (None, ';' | '|' | '(' | ')' | '&') => self.border_between(at, letter),
                (None, '>') if is_duplicate(rest) => {
                    self.word = None;
                    skipped = 2;
                }
                (None, '<' | '>') => {
                    self.end_word(at);
                    self.mark(at..at + 1);
                }
                (None, ' ' | '\t') => self.end_word(at),
                (None, letter) => self.letter(at, letter, "*?[{".contains(letter)),
            }
        }
        self.end_command(command.len());
        if let Some((_, lost)) = self.quote {
            self.mark(lost..command.len());
        }
    }

    fn mark(&mut self, place: Range<usize>) {
        self.borders[place].fill(true);
    }

    fn border_between(&mut self, at: usize, letter: char) {
        self.end_command(at);
        self.mark(at..at + letter.len_utf8());
    }

    fn word_at(&mut self, at: usize) -> &mut Word {
        self.word.get_or_insert_with(|| Word { place: at..at, ..Word::default() })
    }

    fn letter(&mut self, at: usize, letter: char, expands: bool) {
        let word = self.word_at(at);
        if expands {
            word.expands_at.get_or_insert(word.text.len());
        }
        word.text.push(letter);
    }

    fn end_word(&mut self, at: usize) {
        if let Some(mut word) = self.word.take() {
            word.place.end = at;
            self.words.push(word);
        }
    }

    fn end_command(&mut self, at: usize) {
        self.end_word(at);
        let words = std::mem::take(&mut self.words);
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next_if(|word| !word.is_quoted && is_assignment(&word.text)) {
            self.mark(word.place);
        }
        // git may also come after `env`, `time` and the like.
        let mut words = words.skip_while(|word| word.text.rsplit('/').next() != Some("git")).skip(1);
        let mut subcommand = None;
        for word in &mut words {
            if subcommand.is_none() && !word.text.starts_with('-') {
                subcommand = Some(word.text.clone());
            }
            if reaches(&word, subcommand.as_deref()) {
                self.mark(word.place);
            }
        }
    }
}

/// `&1` or `&2` behind a `>`: the output goes where another one goes.
fn is_duplicate(rest: &str) -> bool {
    let mut letters = rest.chars();
    letters.next() == Some('&')
        && matches!(letters.next(), Some('1' | '2'))
        && matches!(letters.next(), None | Some(' ' | '\t'))
}

/// Options of git that write a file elsewhere (`--output`, `-o`), run a program (`-O`, `-x`, `--exec`, `--ext-diff`, `--upload-pack`,
/// hooks of a `--template`), or change what git is (`-c`, `-C`, `--git-dir`; `-c` of a clone). git takes any beginning of a long
/// option for the whole where no other option begins so, and letters of several short ones behind one dash. A word that the shell
/// may turn into one counts.
fn reaches(word: &Word, subcommand: Option<&str>) -> bool {
    const HARMLESS: [&str; 6] =
        ["--no-pager", "--no-optional-locks", "--literal-pathspecs", "--version", "--help", "-P"];
    const LONG: [&str; 10] = [
        "output",
        "open-files-in-pager",
        "exec",
        "ext-diff",
        "extcmd",
        "upload-pack",
        "receive-pack",
        "config",
        "separate-git-dir",
        "template",
    ];
    if word.expands_at.is_some_and(|at| at == 0 || word.text.starts_with('-')) {
        return true;
    }
    let name = word.text.split_once('=').map_or(word.text.as_str(), |(name, _)| name);
    let Some(subcommand) = subcommand else {
        return name.starts_with('-') && !HARMLESS.contains(&name);
    };
    match name.strip_prefix("--") {
        Some("") => false,
        Some(name) => LONG.iter().any(|long| long.starts_with(name) || name.starts_with(long)),
        None => {
            let letters: &[char] =
                if subcommand == "clone" { &['o', 'O', 'x', 'u', 'c'] } else { &['o', 'O', 'x'] };
            name.starts_with('-') && name.contains(letters)
        }
    }
}

/// The option of git in this glob that no command may be allowed with.
pub(crate) fn reaching_option(glob: &str) -> Option<&str> {
    // A star of the glob is no star of the shell's.
    let plain = glob.replace('*', "x");
    let borders = borders(&plain);
    let is_option = |at: &usize| borders[*at] && plain[*at..].starts_with('-');
    let at = (0..plain.len()).filter(|at| plain.is_char_boundary(*at)).find(is_option)?;
    glob[glob.char_indices().nth(plain[..at].chars().count())?.0..].split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The letters of the command that are no border, the others as `#`.
    fn seen(command: &str) -> String {
        let borders = borders(command);
        command.char_indices().map(|(at, letter)| if borders[at] { '#' } else { letter }).collect()
    }

    #[test]
    fn what_begins_another_command_or_opens_a_file_is_a_border() {
        let cases = [
            ("git log --oneline", "git log --oneline"),
            ("a; b && c || d | e & f", "a# b ## c ## d # e # f"),
            ("a > f", "a # f"),
            ("a >> f", "a ## f"),
            ("a &> f", "a ## f"),
            ("a 2> f", "a 2# f"),
            ("a >| f", "a ## f"),
            ("a < f", "a # f"),
            ("a << E", "a ## E"),
            ("a 2>&1", "a 2>&1"),
            ("a >&2 b", "a >&2 b"),
            ("a >&1x", "a ##1x"),
            ("a >&3", "a ##3"),
            ("a >& f", "a ## f"),
            ("a $(b)", "a ##b#"),
            ("a `b`", "a #b#"),
            ("a ${x:=`b`}", "a #{x:=#b#}"),
            ("a \"$b\"", "a \"#b\""),
            ("a <(b)", "a ##b#"),
            ("a\nb\rc\0d\te", "a#b#c#d\te"),
            ("a \\; b", "a ####"),
            ("a ! b != c", "a ! b != c"),
            ("a !b", "a #b"),
            ("^a^b", "#a^b"),
            ("A=1 B+=2 c[0]=3 d=4", "### #### ###### ###"),
            ("a A=1", "a A=1"),
            ("\"A\"=1 a", "\"A\"=1 a"),
            ("a; B=1 c", "a# ### c"),
        ];
        for (command, expected) in cases {
            assert_eq!(seen(command), expected, "{command:?}");
        }
    }

    #[test]
    fn what_is_quoted_is_text_unless_the_shell_or_another_one_reads_it() {
        let cases = [
            ("a 'b; c > d && $(e) `f`'", "a 'b; c > d && $(e) `f`'"),
            ("a \"b; c > d\"", "a \"b; c > d\""),
            ("a \"$(b)\" \"`c`\"", "a \"#(b)\" \"#c#\""),
            ("a '\\d' '\\' b", "a '\\d' '####"),
            ("a \"\\\" b", "a \"####"),
            ("a '!b'", "a '!b'"),
            ("a 'b", "a ##"),
            ("a 'b\nc'", "a 'b#c'"),
            ("a “b”", "a ###"),
        ];
        for (command, expected) in cases {
            assert_eq!(seen(command), expected, "{command:?}");
        }
    }

    #[test]
    fn an_option_of_gits_that_writes_or_runs_something_is_a_border() {
        let bordered = [
            "git log --output=/outside",
            "git log --output /outside",
            "git diff --no-index --outpu=/f",
            "git grep -Otouch hit",
            "git grep -nOtouch hit",
            "git grep --open-files-in-pager=touch hit",
            "git log \"--output=/outside\"",
            "git log --out'put'=/outside",
            "git log -'O'x",
            "git format-patch -o /outside",
            "git archive -o /outside HEAD",
            "git log --{output,x}=/outside",
            "git log *",
            "git log --o*",
            "git log {--output,x}",
            "git diff --ext-diff",
            "git fetch --upload-pack=touch .",
            "git rebase -x touch",
            "git difftool --extcmd=touch",
            "git -c alias.x=!touch x",
            "git -C /elsewhere clean",
            "git --exec-path=/here log",
            "git --git-dir /elsewhere log",
            "/usr/bin/git log --output=x",
            "env git log --output=x",
            "ls; git log --output=x",
            // The beginning of an option is enough where no other one begins so.
            "git push --ex=./evil .",
            "git rebase --e touch",
            "git ls-remote --u=./evil .",
            "git clone --co=core.fsmonitor=./evil . x",
            "git clone --te=./evil . x",
            "git clone -c core.fsmonitor=./evil . x",
            "git clone -lu./evil . x",
            "git init --templ ./evil",
        ];
        for command in bordered {
            assert!(seen(command).replace("; git", "").contains('#'), "{command:?}");
        }
        let plain = [
            "git log --oneline -n 5 --stat -p",
            "git checkout --ours src/*.rs",
            "git add src/main.rs -A",
            "git --no-pager diff HEAD~1 -- src",
            "git log --oneline --cached --stat --exclude=x --reverse --color --topo-order --unified=3",
            "git add -u -- src",
            "git commit -c HEAD --edit",
            "git commit -m 'one: two --output'",
            "npm test -- --output=x -o y *",
        ];
        for command in plain {
            assert_eq!(seen(command), command);
        }
    }

    #[test]
    fn no_text_is_out_of_its_bounds() {
        for command in [
            "", " ", "\"", "'", "\\", ">", ">&", ">&1", "ä > ö", "a 'ä", "“", "git", "git -", "=", "[=", "A[",
        ] {
            assert_eq!(borders(command).len(), command.len(), "{command:?}");
        }
    }
}
