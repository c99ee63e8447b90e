//! PURE: the programs that start others by their arguments, as tables. A list of words is one text, with spaces between them.

/// Programs that run the rest of their words, behind options and so many operands. The third is the options that have a value in
/// the next word, where all of them are known.
pub(super) const STARTERS: [(&str, usize, Option<&str>); 11] = [
    (
        "sudo doas",
        0,
        Some(
            "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --role --type --close-from --command-timeout --other-user",
        ),
    ),
    ("env", 0, Some("-u -C -P --unset --chdir")),
    (
        "xargs gxargs",
        0,
        Some(
            "-I -J -R -S -n -P -L -s -d -a -E --max-args --max-procs --max-lines --max-chars --delimiter --arg-file --process-slot-var",
        ),
    ),
    ("nice gnice", 0, Some("-n --adjustment")),
    ("timeout gtimeout", 1, Some("-k -s --kill-after --signal")),
    ("stdbuf gstdbuf", 0, Some("-i -o -e --input --output --error")),
    ("time gtime", 0, Some("-f -o --format --output")),
    ("exec", 0, Some("-a")),
    ("nohup setsid command builtin busybox toybox nocorrect noglob chronic coproc", 0, Some("")),
    (
        "ionice unbuffer strace ltrace fakeroot unshare nsenter setpriv systemd-run dbus-run-session xvfb-run caffeinate eatmydata \
         firejail npx bunx pnpx uvx entr rlwrap hyperfine watch parallel catchsegv proot runcon numactl cpulimit prlimit choom uclampset",
        0,
        None,
    ),
    ("chroot flock taskset chrt sg setarch", 1, None),
];

/// Programs that run what comes behind one of these words and so many operands; without any words, what comes behind any word.
pub(super) const RUNNERS: [(&str, &str, usize); 10] = [
    ("docker podman nerdctl docker-compose podman-compose kubectl oc lxc crictl ddev lando", "run exec", 1),
    ("npm pnpm yarn bun bundle rbenv pyenv mise asdf direnv", "exec dlx x", 0),
    ("uv poetry pipenv pdm hatch rye conda mamba micromamba op doppler infisical dotenvx mise", "run", 0),
    ("nix", "run shell develop -c --command", 0),
    ("git", "bisect", 1),
    ("cmake", "env", 0),
    ("ip", "exec", 1),
    ("xterm urxvt rxvt konsole gnome-terminal xfce4-terminal alacritty kitty", "-e -x --", 0),
    ("gosu su-exec adb faketime machinectl", "", 1),
    (
        "gdb valgrind perf start-stop-daemon daemonize watchexec nodemon reflex tmux screen dotenv bwrap start cmd cmd.exe pkexec runuser proxychains proxychains4 torsocks tsocks cgexec systemd-inhibit dbus-launch linux32 linux64 heaptrack rr \
         wsl ld.so",
        "",
        0,
    ),
];

/// Options whose value is a text for a shell, or a command.
pub(super) const TEXTS: [(&str, &str); 15] = [
    ("su runuser sg script flock capsh", "-c --command --session-command"),
    ("env", "-S --split-string"),
    ("npm npx pnpm yarn bunx", "-c --call"),
    ("nix-shell nix", "--run --command -c"),
    (
        "git",
        "-x --exec --extcmd --upload-pack --receive-pack --tree-filter --index-filter --msg-filter --commit-filter --env-filter --parent-filter --tag-name-filter --open-files-in-pager",
    ),
    ("rsync", "-e --rsh --rsync-path"),
    (
        "tar bsdtar",
        "--to-command --checkpoint-action --use-compress-program --rmt-command --rsh-command -I -F --info-script --new-volume-script",
    ),
    ("rg", "--pre --hostname-bin"),
    ("sort", "--compress-program"),
    ("vi vim nvim ex view", "-c --cmd"),
    ("ssh scp sftp", "-o"),
    ("vagrant", "-c --command"),
    ("man", "-P --pager"),
    ("zip", "-TT --unzip-command"),
    ("mapfile readarray complete compgen", "-C"),
];

/// Long options of interpreters with a value in the next word, which names no program.
pub(super) const LOADERS: &str =
    "--require --import --loader --experimental-loader --env-file --conditions --input-type --cwd --config";

/// Programs with a language of their own, and what in their words may run a program.
pub(super) const ESCAPES: [(&str, &str); 6] = [
    ("psql mysql mariadb sqlite3", "\\! .shell .system"),
    ("gdb lldb", "shell ! python"),
    ("make gmake", "--eval SHELL= $(shell"),
    ("vi vim nvim ex view less more", "+! +:!"),
    ("ed red dc", "!"),
    ("socat", "EXEC: SYSTEM: exec: system:"),
];

/// Shells.
pub(super) const SHELLS: &str = "sh bash dash zsh ksh mksh oksh ash fish csh tcsh yash rbash";

/// Interpreters: the letters of options whose value is a program, the same in words, and letters of options with another value.
pub(super) const INTERPRETERS: [(&str, &str, &str, &str); 8] = [
    ("python pypy ipython", "c", "", "XWQ"),
    ("expect nu elvish xonsh", "c", "--commands", ""),
    ("node nodejs bun deno tsx ts-node", "ep", "--eval --print eval -pe", "rC"),
    ("perl", "eE", "", "I"),
    ("ruby", "e", "", "rIEC"),
    ("php", "rBRE", "--run --process-begin --process-code --process-end", "dcz"),
    (
        "lua luajit Rscript R julia elixir iex erl groovy osascript scala kotlin swift ghc tclsh guile racket raku clojure clj bb sbcl emacs gnuplot octave",
        "eE",
        "-eval --eval --execute eval",
        "l",
    ),
    ("pwsh powershell", "", "-c -C -e -ec -enc -command -Command -encodedcommand -EncodedCommand", ""),
];

/// Variables whose value is a command, by a part of the name.
pub(super) const COMMANDS: [&str; 10] =
    ["PAGER", "EDITOR", "VISUAL", "BROWSER", "COMMAND", "DIFF", "ASKPASS", "GIT_SSH", "_RSH", "LESSOPEN"];

/// Parts of names in git's configuration whose value is a command.
pub(super) const SETTINGS: [&str; 13] = [
    "pager",
    "editor",
    "command",
    "external",
    "textconv",
    "helper",
    "cmd",
    "fsmonitor",
    "program",
    "driver",
    "clean",
    "smudge",
    "process",
];

/// Options of git, before the subcommand, with a value in the next word.
pub(super) const GIT_VALUES: &str =
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source";

/// A text whose operators of a shell are letters, as env takes them where no shell reads its text.
pub(super) fn without_operators(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for sign in text.chars() {
        if ";&|<>(".contains(sign) {
            plain.push('\\');
        }
        plain.push(sign);
    }
    plain
}

/// Whether a value follows in the next word; `None`: it may.
pub(super) fn has_value(valued: &str, option: &str) -> Option<bool> {
    if has(valued, option) {
        return Some(true);
    }
    let is_plain = option.len() == 2 || option.contains('=');
    let ends_open = |letter: char| has(valued, &format!("-{letter}"));
    let is_cluster = !option.starts_with("--") && !option.chars().last().is_some_and(ends_open);
    (is_plain || is_cluster).then_some(false)
}

/// Whether the word is one of the list.
pub(super) fn has(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split([' ', '\n']).any(|known| known == word)
}
