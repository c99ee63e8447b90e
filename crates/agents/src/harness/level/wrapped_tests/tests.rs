use super::*;
use crate::harness::level::command::Found;
use proptest::prelude::*;

mod reports;

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
    let long = format!("{{rm,{}}}", "a".repeat(5_000));
    assert_eq!(Commands::read(&long).contain("rm *"), Some(Found::Command), "bash runs rm");
    let deep = |open: &str, close: &str| format!("{}rm x{}", open.repeat(5_000), close.repeat(5_000));
    for text in [
        deep("(", ")"),
        deep("$(", ")"),
        deep("\"$(", ")\""),
        deep("((", "))"),
        deep("${a:-", "}"),
        "{".repeat(100_000),
        "[".repeat(100_000),
    ] {
        let _ = Commands::read(&text).contain("rm *");
    }
    // Each of them starts another: what is read of them is bounded.
    for starter in ["eval ", "sudo ", "env ", "bash -c \"", "xargs ", "find -exec ", "ssh h "] {
        let commands = Commands::read(&format!("{}rm x", starter.repeat(1_000)));
        assert!(commands.contain("rm *").is_some(), "{starter}");
        assert!(commands.held() <= 4 * 1024 * 1024, "{starter}: {}", commands.held());
    }
}

/// Braces are the places of inputs for parallel, and parts of texts for others.
#[test]
fn a_brace_behind_parallel_hides_nothing() {
    for command in [
        "parallel make --eval='awk \"BEGIN{x}\" ; rm x' :::",
        "parallel git -c core.pager='rm {a,b}' log :::",
        "parallel bash -c 'f() { rm x; }; f' :::",
        "parallel rm {} ::: x",
    ] {
        assert!(Commands::read(command).contain("rm *").is_some(), "{command}");
    }
    assert!(Commands::read("parallel echo {} ::: a b").contain("rm *").is_none());
}

#[test]
fn a_program_given_to_its_interpreter_is_found() {
    for command in [
        "bash rm x",
        "bash <<<ls rm x",
        "sh -e /usr/local/bin/rm x",
        "bash ~/bin/rm x",
        "bash $HOME/bin/rm x",
        "bash \"$D/rm\" x",
        "bash $'\\x72m' x",
        "sh r$E\"m\" x",
        ". rm x",
        "source ./rm x",
        "env python3 -u rm x",
        "python3 -m rm x",
        "python3 -mrm x",
        "node --no-warnings node_modules/.bin/rm x",
        "perl -w rm x",
        "ruby bin/rm x",
        "bash -c 'sh rm x'",
        "bash sudo rm x",
        "python3 -m timeit",
    ] {
        assert!(Commands::read(command).contain("rm *").is_some(), "{command:?}");
    }
    for command in [
        "bash \"$f\"",
        "bash \"$D/$f.sh\" rm",
        "python3 \"scripts/$x.py\"",
        "bash scripts/rm.sh x",
        "python3 -m pytest -k rm",
        "node rm.mjs x",
        ". .venv/bin/activate",
        "source \"$D/env.sh\"",
    ] {
        assert_eq!(Commands::read(command).contain("rm *"), None, "{command:?}");
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

/// Commands by chance, each run by a real bash in a folder of its own, where a program of ours takes the place of rm.
#[cfg(target_os = "linux")]
mod oracle {
    use super::super::{COMPOUND, DENIED, STARTED, wrap};
    use crate::harness::level::command::Commands;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Commands that one bash runs.
    const TOGETHER: usize = 20;
    /// The programs that can be found. None of them writes elsewhere.
    const PROGRAMS: &str =
        "bash sh env nice nohup setsid stdbuf timeout find xargs cat true false ionice chrt taskset";

    /// Numbers that look like chance.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, count: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % count
        }

        fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
            of[self.below(of.len())]
        }
    }

    fn harmless<'a>(templates: &[&'a str]) -> Vec<&'a str> {
        templates.iter().copied().filter(|template| !template.contains('/')).collect()
    }

    fn command(chance: &mut Chance) -> String {
        let (spellings, starters, compound) = (harmless(DENIED[0].1), harmless(STARTED), harmless(COMPOUND));
        let mut text = chance.one(&spellings).to_owned();
        for _ in 0..chance.below(3) {
            text = wrap(chance.one(&starters), &text);
        }
        for _ in 0..=chance.below(2) {
            text = wrap(chance.one(&compound), &text);
        }
        if chance.below(3) == 0 {
            text = wrap(
                chance.one(&["bash -c {q}", "eval {q}", "sh -ec {q}", "trap {q} EXIT", "bash <<<{q}"]),
                &text,
            );
        }
        // A slip: a sign more, or a letter less.
        for _ in 0..chance.below(3) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places[chance.below(places.len())];
            if chance.below(3) == 0 && text.len() > 4 {
                text.remove(at);
            } else {
                text.insert_str(
                    at,
                    chance.one(&[
                        "'", "\"", "\\", " ", "$", "(", ")", ";", "|", "&", "{", "}", "<", ">", "\n", "!",
                        "`", "#",
                    ]),
                );
            }
        }
        text
    }

    /// The numbers of the commands in which bash ran our program.
    fn run(folder: &Path, commands: &[String]) -> Vec<usize> {
        let (bin, log) = (folder.join("bin"), folder.join("log"));
        let _ = fs::remove_file(&log);
        let mut script = String::from("ulimit -t 1; ulimit -f 64; FUNCNEST=20\n");
        for (number, command) in commands.iter().enumerate() {
            let own = folder.join(number.to_string());
            fs::create_dir_all(&own).unwrap();
            let quoted = command.replace('\'', r"'\''");
            script.push_str(&format!(
                "( cd '{}' && eval '{quoted}' ) </dev/null >/dev/null 2>&1\n",
                own.display()
            ));
        }
        let mut shell = Command::new("/bin/bash");
        shell.args(["-c", &script]).env_clear().env("PATH", &bin).env("R", "rm").current_dir(folder);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut shell = shell.spawn().unwrap();
        let begun = Instant::now();
        while shell.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(10) {
                let _ = Command::new("kill").args(["-9", "--", &format!("-{}", shell.id())]).status();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let told = fs::read_to_string(&log).unwrap_or_default();
        told.lines().filter_map(|line| line.rsplit('/').next()?.parse().ok()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: ProptestConfig::default().cases.div_ceil(32),
            // A smaller seed is no smaller case.
            max_shrink_iters: 0,
            ..ProptestConfig::default()
        })]
        #[test]
        fn what_bash_runs_is_found(seed: u64) {
            let folder = tempfile::tempdir().unwrap();
            let bin = folder.path().join("bin");
            fs::create_dir(&bin).unwrap();
            for name in PROGRAMS.split(' ') {
                let _ = symlink(Path::new("/usr/bin").join(name), bin.join(name));
            }
            // A loop that a slip made endless ends when it runs the program for the fourth time.
            let loops = "[ -e .c ] && kill -9 $PPID\n[ -e .b ] && : > .c\n[ -e .a ] && : > .b\n: > .a";
            let log = folder.path().join("log");
            let ours = format!("#!/bin/sh\n[ $# = 0 ] || echo \"$PWD\" >> '{}'\n{loops}\n", log.display());
            fs::write(bin.join("rm"), ours).unwrap();
            fs::set_permissions(bin.join("rm"), fs::Permissions::from_mode(0o755)).unwrap();
            let mut chance = Chance(seed);
            let commands: Vec<String> = (0..TOGETHER).map(|_| command(&mut chance)).collect();
            for number in run(folder.path(), &commands) {
                let found = Commands::read(&commands[number]).contain("rm *");
                prop_assert!(found.is_some(), "bash runs rm, and it is not found in {:?}", commands[number]);
            }
        }
    }
}
