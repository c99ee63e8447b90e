use super::*;
use crate::harness::level::command::Found;
use proptest::prelude::*;

/// Commands of everyday work, which no rule against [`DENIED`] may refuse.
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
    "sed -i 's/else/the end/g' f",
    "sed -e 's|a|e|' -e '/begin/,/end/d' f",
    "make test",
    "psql -c 'select system_id from t'",
    "python -m venv .venv",
    "less f",
    "git config user.name x",
    "gdb --version",
    "jq '.a | $x' f",
    "node --env-file=.env x.mjs",
];

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
    for (allowed, pattern, spellings) in [("git *", "git push*", DENIED[1].1), ("*", "rm *", DENIED[0].1)] {
        for spelling in spellings {
            let commands = Commands::read(spelling);
            assert!(!commands.are(allowed) || commands.contain(pattern).is_some(), "{spelling:?}");
        }
    }
}

#[test]
fn no_star_allows_a_text_that_can_not_be_read() {
    for (pattern, text, expected) in [
        ("python *", "python x.py -v", true),
        ("python *", "python -m pytest", true),
        ("python *", "python -c 'import os'", false),
        ("python -c *", "python -c 'import os'", false),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'", true),
        ("python *", "python -", false),
        ("python*", "python", false),
        ("node *", "node build.mjs --eval", true),
        ("node *", "node -e 1", false),
        ("node *", "node -pe 1", false),
        ("perl *", "perl -ne print x", false),
        ("ruby *", "ruby -e 1", false),
        ("php *", "php -r 1", false),
        ("deno *", "deno eval 1", false),
        ("bash *", "bash x.sh", true),
        ("bash *", "bash -c ls", true),
        ("bash *", "bash -s", false),
        ("uv *", "uv run python -c 1", false),
        ("env *", "env node --eval=1", false),
        ("env *", "env node --print 1", false),
        ("sudo *", "sudo python -c 1", false),
        ("awk *", "awk 'BEGIN{system(\"x\")}'", false),
        ("awk *", "awk '/a/' f", true),
        ("make *", "make test", true),
    ] {
        assert_eq!(Commands::read(text).are(pattern), expected, "{pattern:?} {text:?}");
    }
    let flags = format!("gcc {} x.c", "-Wall -O2 ".repeat(40).trim());
    assert!(Commands::read(&flags).are("gcc *"));
}

#[test]
fn a_quoted_text_for_an_unknown_program_is_searched_too() {
    for text in [
        "own 'ls; rm x'",
        "own -c \"if a; then rm x; fi\"",
        "own '$(rm x)'",
        "own 'a\nrm x'",
        "own a 'b && (rm x)'",
    ] {
        assert!(Commands::read(text).contain("rm *").is_some(), "{text:?}");
    }
    for text in [
        "own 'a; b'",
        "own 'it; is \"open'",
        "jq '.a | $x'",
        "own 'a; $(cat f)'",
        "psql -c 'select 1; select $1'",
    ] {
        assert!(Commands::read(text).contain("rm *").is_none(), "{text:?}");
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
    for text in
        ["echo 'a", "echo \"a", "echo $(ls", "echo `ls", "(ls", "ls)", "echo >", "case x in y) ls", "a (b)"]
    {
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
        shell.args(["-c", command]).env_clear().env("PATH", &path).env("R", "rm").current_dir(folder.path());
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
    let compound =
        COMPOUND.iter().filter(|template| !template.starts_with("select") && !template.starts_with("alias"));
    let silent: Vec<String> = starters
        .iter()
        .chain(compound)
        .map(|template| wrap(template, "rm x"))
        .filter(|command| !runs(command))
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}
