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
            "{'rm',x}",
            "{r\"m\",x}",
            "{r\\m,x}",
            "{rm,a\\ b}",
            "{rm,'a b'}",
            "{{'rm',-f},x}",
            "{rm,\"$(echo \"a b\")\"/x}",
            "/bin/r['m'] x",
            "/bin/r[\"m\"] x",
            "/bin/r[\\m] x",
            "/bin/r[]m] x",
            "/bin/r[{m],x} x",
            "/bin/r[{{m],x},y} x",
            "/bin/{r[x,c}m] x",
            "/bin/{r[x,{c}m]} x",
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
            "git {'push',-f}",
            "git {push,'a b'}",
            "git pus['h']",
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
    "LESSOPEN={q} less f",
    "node --eval={q}",
    "node --import data:text/javascript,{q}",
    "python -m timeit {q}",
    "expect -c {q}",
    "pkexec {}",
    "gosu me {}",
    "runuser -u me -- {}",
    "adb shell {}",
    "docker-compose exec web {}",
    "vagrant ssh -c {q}",
    "/lib64/ld-linux-x86-64.so.2 {}",
    "sed 's/a/b/e' {q}",
    "sed '1e ls' {q}",
    "psql -c '\\! ls' {q}",
    "make --eval={q}",
    "git config alias.x '!'{q}",
    "bash <<<{q}",
    "python3 - <<<{q}",
    "time -p {}",
    "prlimit --nofile=5 {}",
    "ip netns exec a {}",
    "xterm -e {}",
    "gnome-terminal -- {}",
    "capsh -- -c {q}",
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
mod tests;
