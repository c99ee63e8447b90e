//! PURE: denied commands in every known spelling and behind every known starter, for the tests and the fuzz target.

use super::command::Commands;

/// A pattern, and commands that it means.
const DENIED: [(&str, &[&str]); 2] = [
    (
        "rm *",
        &[
            "rm x",
            "rm  -rf x",
            "rm\tx",
            "/bin/rm x",
            "./rm x",
            "\\rm x",
            "r\\m x",
            "'rm' x",
            "\"rm\" x",
            "r''m x",
            "r\"\"m x",
            "$'rm' x",
            "$'\\x72m' x",
            "A=1 rm x",
            "a[0]=1 rm x",
            ">f rm x",
            "2>&1 rm x",
            "rm 2>&1 x",
            "rm x >f",
            "rm \\\n x",
            "r\\\nm x",
            "r$E\"m\" x",
            "${R:-rm} x",
            "$R x",
            "\"$R\" x",
            "r? x",
            "r[m] x",
            "{rm,-f,x}",
            "`echo rm` x",
            "$(echo rm) x",
        ],
    ),
    (
        "git push*",
        &[
            "git push",
            "git push -f",
            "git  push",
            "git 'push'",
            "git pu''sh",
            "git -C . push",
            "git -C. push",
            "git --no-pager push",
            "git -P push",
            "git -c a.b=c push",
            "git --git-dir=.git push",
            "git --git-dir .git --work-tree . push",
            "git 2>&1 push",
            "/usr/bin/git push",
            "git -c alias.p=push p",
            "git -c 'alias.p=!git push' p",
            "git $P",
            "git p?sh",
            "git pus{h,}",
            "git -p --no-replace-objects push",
            "GIT_PAGER=cat git push",
        ],
    ),
];

/// A simple command again. `{}` is the words of the command, `{q}` the command as one quoted word.
const STARTED: &[&str] = &[
    "sudo {}",
    "sudo -u me {}",
    "sudo -nu me {}",
    "sudo A=1 {}",
    "doas {}",
    "env {}",
    "env A=1 {}",
    "env -i A=1 {}",
    "env -u A {}",
    "env -S {q}",
    "nice {}",
    "nice -n 5 {}",
    "nice -5 {}",
    "nohup {}",
    "setsid -w {}",
    "stdbuf -oL {}",
    "stdbuf -o L {}",
    "timeout 5 {}",
    "timeout -k 1 5 {}",
    "timeout --signal=KILL 5 {}",
    "command {}",
    "command -p {}",
    "exec {}",
    "exec -a n {}",
    "builtin command {}",
    "ionice -c 3 {}",
    "chrt -i 0 {}",
    "taskset 1 {}",
    "flock f {}",
    "flock f -c {q}",
    "chroot / {}",
    "busybox {}",
    "/usr/bin/env {}",
    "bash -c {q}",
    "sh -c {q}",
    "bash -lc {q}",
    "sh -ec {q}",
    "bash --norc -c {q}",
    "bash -o pipefail -c {q}",
    "/bin/sh -c {q} name",
    "zsh -c {q}",
    "busybox sh -c {q}",
    "eval {q}",
    "trap {q} EXIT",
    "su -c {q}",
    "su me -c {q}",
    "script -qc {q} f",
    "watch {q}",
    "ssh host {q}",
    "find . -maxdepth 0 -exec {} \\;",
    "find . -exec sh -c {q} \\;",
    "find . -execdir {} +",
    "fd -x {}",
    "xargs {}",
    "xargs -n 1 {}",
    "xargs -I % {}",
    "parallel {} :::",
    "docker run img {}",
    "docker exec -it c {}",
    "npx {}",
    "npm exec -- {}",
    "npm exec -c {q}",
    "uv run {}",
    "strace -o f {}",
    "git rebase --exec {q}",
    "git bisect run {}",
    "git submodule foreach {q}",
    "git -c core.pager={q} log",
    "tmux new -d {q}",
    "tar --to-command={q} f",
    "nix-shell --run {q}",
    "env -C . {}",
    "python3 -c {q}",
    "python -Sc {q}",
    "node -e {q}",
    "perl -e {q}",
    "ruby -e {q}",
    "php -r {q}",
    "awk 'BEGIN{system(\"x\")}' {q}",
    "GIT_EXTERNAL_DIFF={q} git diff",
    "EDITOR={q} crontab -e",
    "bash <<<{q}",
    "python3 - <<<{q}",
    "time -p {}",
];

/// A compound command.
const COMPOUND: &[&str] = &[
    "{}",
    "true; {}",
    "true && {}",
    "false || {}",
    "true | {}",
    "true & {}",
    "true\n{}",
    "({})",
    "( ( {} ) )",
    "{ {}; }",
    "! {}",
    "time {}",
    "if true; then {}; fi",
    "if {}; then :; fi",
    "if false; then :; elif {}; then :; fi",
    "if false; then :; else {}; fi",
    "while {}; do break; done",
    "until {}; do :; done",
    "for f in a b; do {}; done",
    "for ((i=0;i<1;i++)); do {}; done",
    "select f in a; do {}; break; done",
    "case x in x) {};; esac",
    "case x in (y|x) {} ;; esac",
    "case x in y) ;; *) {} ; esac",
    "f() { {}; }; f",
    "f() ({}); f",
    "function f { {}; }; f",
    "coproc {}",
    "echo $({})",
    "echo \"$({})\"",
    "echo `{}`",
    "cat <({})",
    "a=$({})",
    "a=(`{}`)",
    "[[ -n $({}) ]]",
    "echo $(( $({}) + 1 ))",
    "echo ${x:-$({})}",
    "echo \"${x:-`{}`}\"",
    "cat <<E\n$({})\nE",
    "bash <<'E'\n{}\nE",
    "bash <<-E\n\t{}\nE",
    "cat <<E | bash\n{}\nE",
    "echo {q} | sh",
    "echo x | xargs {}",
    "alias a={q}; a",
    "# a comment\n{}",
    "echo a # {q}\n{}",
    "cd /; {}",
    "true;{}",
    "{} &",
    "{} | cat",
    "export A=1; {}",
    "source <(echo {q})",
];

/// Commands of everyday work, which no rule against [`DENIED`] may refuse.
#[cfg(test)]
const HARMLESS: &[&str] = &[
    "ls -la",
    "git status",
    "git log --oneline -5",
    "git rm x",
    "npm rm x",
    "docker rm x",
    "echo rm",
    "cat a.txt b.txt",
    "echo oops >&2; exit 3",
    "echo hi > out.txt; echo done",
    "tail -f /dev/null",
    "sleep 4; echo bg > bg.txt",
    "/bin/bash -lc 'cat a.txt b.txt'",
    "cd src && npm test -- --run 2>&1 | tail -20",
    "find . -name '*.ts' -not -path './node_modules/*' | head -50",
    "find . -type f -exec grep -l foo {} +",
    "grep -rn \"rm x\" src | wc -l",
    "rg -n 'git push' docs",
    "git commit -m \"Remove the rm x call\"",
    "git commit -m \"$(cat <<'E'\nSay why\n\nIt isn't (yet) \"done\".\nE\n)\"",
    "for f in *.md; do wc -l \"$f\"; done",
    "if [ -f x ]; then cat x; fi",
    "[[ $a == *b* && -n $c ]] && echo y",
    "(( $n > 3 )) && echo big",
    "case $1 in *) echo a;; esac",
    "sed -n '1,40p' a.rs",
    "awk -F, '/a|b/ {print $1}' f",
    "python3 script.py -c x",
    "python3 -m pytest -q",
    "node --version",
    "node build.mjs",
    "bash -n a.sh",
    "bash scripts/test.sh",
    "sh ./run.sh --all",
    "source .venv/bin/activate && pytest",
    "timeout 60 npm test",
    "xargs -I{} cp {} out",
    "sudo -u $USER ls",
    "ls | xargs -n1 basename",
    "cat > f.txt <<'E'\nhello (world\nE",
    "curl -s https://example.com | jq '.a[] | {b}'",
    "mkdir -p a/{b,c}",
    "echo $HOME $PWD $?",
    "$HOME/bin/tool --x",
    "ls \"$HOME\"/*.txt",
    "PYTHONPATH=. python3 -m x",
    "docker exec $C ls",
    "git -C sub status",
    "git --no-pager diff",
    "git stash push",
    "env FOO=1 npm run build",
    "command -v rm",
    "which git",
    "x=$(git rev-parse HEAD); echo \"$x\"",
    "tar -xzf a.tgz -C out",
    "make -j4",
    "echo 'a' | tee f",
    "npx tsc --noEmit",
    "npm run x -- --fix",
    "cargo test -p a 2>&1 | grep -E 'FAILED|ok'",
    "jq -r '.x' < f.json",
    "bash -c 'cd x && ls'",
    "test -d x || mkdir x",
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn wrap(template: &str, command: &str) -> String {
    let escaped = command.replace('\\', r"\\").replace('`', r"\`").replace('$', r"\$");
    let command = if template.contains("`{}`") { &escaped } else { command };
    template.replace("{q}", &quoted(command)).replace("{}", command)
}

/// Builds a denied command, as the bytes choose, and asserts that it is found; what is left is read as a text of its own.
///
/// # Panics
/// When a denied command is not found.
pub fn fuzz_commands(bytes: &[u8]) {
    let mut choices = bytes.iter().map(|byte| usize::from(*byte));
    let mut choose = |count: usize| choices.next().unwrap_or_default() % count;
    let (pattern, spellings) = DENIED[choose(DENIED.len())];
    let mut command = spellings[choose(spellings.len())].to_owned();
    for _ in 0..choose(4) {
        command = wrap(STARTED[choose(STARTED.len())], &command);
    }
    command = wrap(COMPOUND[choose(COMPOUND.len())], &command);
    if choose(3) == 0 {
        // Only a text of it makes one word of a compound command.
        command = wrap(["bash -c {q}", "eval {q}", "sudo sh -ec {q}"][choose(3)], &command);
        command = wrap(COMPOUND[choose(COMPOUND.len())], &command);
    }
    let commands = Commands::read(&command);
    assert!(commands.contain(pattern).is_some(), "{pattern:?} does not find {command:?}");
    let text = String::from_utf8_lossy(bytes);
    let any = Commands::read(&text);
    // A pattern that matches the whole text must also be found among its commands.
    for name in ["git push", "rm x"] {
        assert!(!any.are(name) || any.contain(name).is_some(), "{text:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::Found;
    use super::*;
    use proptest::prelude::*;

    fn missed(templates: &[&str]) -> Vec<String> {
        let mut missed = Vec::new();
        for (pattern, spellings) in DENIED {
            for spelling in spellings {
                for template in templates {
                    let command = wrap(template, spelling);
                    if Commands::read(&command).contain(pattern).is_none() {
                        missed.push(command);
                    }
                }
            }
        }
        missed
    }

    #[test]
    fn a_denied_command_is_found_in_every_spelling_behind_every_starter() {
        assert_eq!(missed(&["{}"]), Vec::<String>::new(), "spellings");
        assert_eq!(missed(STARTED), Vec::<String>::new(), "starters");
        assert_eq!(missed(COMPOUND), Vec::<String>::new(), "compound commands");
        let spellings: usize = DENIED.iter().map(|(_, spellings)| spellings.len()).sum();
        println!(
            "{spellings} spellings, {} starters, {} compound commands: {} wrapped commands",
            STARTED.len(),
            COMPOUND.len(),
            spellings * (1 + STARTED.len() + COMPOUND.len())
        );
    }

    #[test]
    fn everyday_commands_are_not_refused() {
        let refused: Vec<_> = HARMLESS
            .iter()
            .flat_map(|command| {
                DENIED.map(|(pattern, _)| (pattern, *command, Commands::read(command).contain(pattern)))
            })
            .filter(|(.., found)| found.is_some())
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn what_allow_reads_past_deny_reads_past_too() {
        for (allowed, pattern, spellings) in [("git *", "git push*", DENIED[1].1), ("*", "rm *", DENIED[0].1)]
        {
            for spelling in spellings {
                let commands = Commands::read(spelling);
                assert!(!commands.are(allowed) || commands.contain(pattern).is_some(), "{spelling:?}");
            }
        }
    }

    #[test]
    fn programs_that_join_their_words_are_read_as_they_join_them() {
        for command in [
            "eval rm x",
            "eval 'r''m' x",
            "watch -n 1 rm x",
            "ssh -p 1 host rm x",
            "ssh host true '&&' rm x",
            "((rm x))",
        ] {
            assert!(Commands::read(command).contain("rm *").is_some(), "{command:?}");
        }
    }

    #[test]
    fn what_can_not_be_read_counts_as_found_and_is_allowed_by_nothing() {
        for text in [
            "echo 'a",
            "echo \"a",
            "echo $(ls",
            "echo `ls",
            "(ls",
            "ls)",
            "echo >",
            "case x in y) ls",
            "a (b)",
        ] {
            let commands = Commands::read(text);
            assert!(matches!(commands.contain("nothing"), Some(Found::Unread(_))), "{text:?}");
            assert!(!commands.are("*") && !commands.are(text), "{text:?}");
        }
        let deep = |open: &str, close: &str| format!("{}rm x{}", open.repeat(5_000), close.repeat(5_000));
        for text in [
            deep("(", ")"),
            deep("$(", ")"),
            deep("\"$(", ")\""),
            deep("((", "))"),
            deep("${a:-", "}"),
            "eval ".repeat(5_000),
            "{".repeat(100_000),
            "[".repeat(100_000),
        ] {
            let _ = Commands::read(&text).contain("rm *");
        }
    }

    proptest! {
        #[test]
        fn wrapped_commands_are_found(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            fuzz_commands(&bytes);
        }
    }

    /// The table agrees with a real shell: a program of ours takes the place of rm.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_table_tells_what_bash_runs() {
        use std::process::{Command, Stdio};
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let (program, log) = (bin.join("rm"), folder.path().join("log"));
        std::fs::write(&program, format!("#!/bin/sh\necho ran >> '{}'\n", log.display())).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let runs = |command: &str| {
            let _ = std::fs::remove_file(&log);
            let mut shell = Command::new("/bin/bash");
            shell
                .args(["-c", command])
                .env_clear()
                .env("PATH", &path)
                .env("R", "rm")
                .current_dir(folder.path());
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            // A pipe, or the background, may end later.
            for _ in 0..200 {
                if log.exists() {
                    return true;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            false
        };
        let starters = [
            "env {}",
            "env -i A=1 PATH=\"$PATH\" {}",
            "env -u A {}",
            "env -S {q}",
            "nice -n 5 {}",
            "nohup {}",
            "setsid -w {}",
            "stdbuf -o L {}",
            "timeout -k 1 5 {}",
            "command -p env PATH=\"$PATH\" {}",
            "exec -a n {}",
            "flock f -c {q}",
            "bash -o pipefail -c {q}",
            "sh -ec {q}",
            "eval {q}",
            "trap {q} EXIT",
            "find . -maxdepth 0 -exec {} \\;",
            "echo a | xargs -n 1 {}",
            "echo a | xargs -I % {}",
            "bash <<<{q}",
        ];
        // A shell without a terminal asks for nothing, and knows no aliases.
        let compound = COMPOUND
            .iter()
            .filter(|template| !template.starts_with("select") && !template.starts_with("alias"));
        let silent: Vec<String> = starters
            .iter()
            .chain(compound)
            .map(|template| wrap(template, "rm x"))
            .filter(|command| !runs(command))
            .collect();
        assert_eq!(silent, Vec::<String>::new());
    }
}
