//! PURE: the programs that start others by their arguments, as tables. A list of words is one text, with spaces between them.

/// Programs that run the rest of their words, behind options and so many operands. The third is the options that have a value in
/// the next word, where all of them are known.
pub(super) const STARTERS: [(&str, usize, Option<&str>); 13] = [
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
    (
        "nohup setsid command builtin busybox toybox nocorrect noglob chronic coproc ifne ccache sccache distcc",
        0,
        Some(""),
    ),
    (
        "unshare",
        0,
        Some(
            "-S -G -R -w --setuid --setgid --root --wd --map-user --map-group --map-users --map-groups --propagation --setgroups --monotonic --boottime",
        ),
    ),
    ("nsenter", 0, Some("-t -S -G --target --setuid --setgid")),
    (
        "ionice unbuffer strace ltrace fakeroot fakechroot setpriv systemd-run dbus-run-session xvfb-run caffeinate eatmydata \
         tini dumb-init catatonit cross-env cross-env-shell concurrently pee sem byobu chpst softlimit timelimit trickle run0 nq tsp \
         srun salloc mpirun mpiexec condor_run schroot systemd-nspawn sandbox-exec wine box64 qsub bsub distrobox-host-exec host-spawn \
         firejail npx bunx pnpx uvx entr rlwrap hyperfine watch parallel catchsegv proot runcon numactl cpulimit prlimit choom uclampset",
        0,
        None,
    ),
    (
        "chroot arch-chroot flock taskset chrt sg logsave setuidgid envuidgid envdir s6-setuidgid s6-envdir dtach abduco pdsh",
        1,
        None,
    ),
];

/// Programs that open a shell where they are given no command, behind so many operands.
pub(super) const OPENERS: [(&str, usize, Option<&str>); 5] = [
    (
        "sudo doas unshare nsenter fakeroot fakechroot firejail proot linux32 linux64 pkexec dbus-run-session systemd-run schroot \
         systemd-nspawn run0 parallel capsh wsl cmd cmd.exe lxc-attach",
        0,
        None,
    ),
    ("setarch", 0, Some("")),
    ("setarch chroot arch-chroot sg faketime", 1, None),
    ("ssh slogin autossh", 1, Some("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w")),
    ("docker podman nerdctl", 2, None),
];

/// Programs that open a shell by one of these words.
pub(super) const OPENING_WORDS: [(&str, &str); 3] = [
    ("machinectl adb multipass limactl poetry pipenv hatch nix guix devenv", "shell develop"),
    ("vagrant minikube colima gcloud fly flyctl", "ssh console"),
    ("distrobox toolbox", "enter"),
];

/// Programs whose words behind `--` are files, patterns or words for a program of their own.
pub(super) const OPERANDS: &str = "git hg svn gh grep egrep fgrep rg ag ack ls cat cp mv ln touch mkdir rmdir echo printf test head tail wc sort tee \
     diff sed awk gawk jq npm pnpm yarn bun cargo go make gmake pytest jest vitest eslint prettier tsc node deno python python3 perl ruby php";

/// Programs that run what comes behind one of these words and so many operands; without any words, what comes behind any word.
pub(super) const RUNNERS: [(&str, &str, usize); 12] = [
    (
        "docker podman nerdctl docker-compose podman-compose kubectl oc lxc incus crictl runc crun ctr buildah apptainer singularity ddev lando",
        "run exec",
        1,
    ),
    (
        "npm pnpm yarn bun bundle composer lerna nx tox rbenv pyenv nodenv jenv mise rtx asdf direnv fnm nvm n volta chamber aws-vault sops",
        "exec dlx x exec-env",
        0,
    ),
    (
        "uv poetry pipenv pdm hatch rye pixi pipx conda mamba micromamba op doppler infisical dotenvx teller mise volta devbox heroku foreman honcho toolbox zellij",
        "run",
        0,
    ),
    ("nix guix", "run shell develop -c --command environment", 0),
    ("corepack pm2 pueue", "npm pnpm yarn start add", 0),
    ("git", "bisect", 1),
    ("cmake", "env", 0),
    ("ip", "exec", 1),
    ("just", "-c --command", 0),
    ("xterm urxvt rxvt konsole gnome-terminal xfce4-terminal alacritty kitty", "-e -x --", 0),
    ("gosu su-exec adb faketime machinectl", "", 1),
    (
        "gdb valgrind perf start-stop-daemon daemonize watchexec nodemon reflex tmux screen dotenv bwrap start cmd cmd.exe pkexec runuser proxychains proxychains4 torsocks tsocks cgexec systemd-inhibit dbus-launch setarch linux32 linux64 arch heaptrack rr \
         sshpass mosh pssh clush lxc-attach lxc-execute flatpak-spawn distrobox onchange launchctl vault-env wsl ld.so",
        "",
        0,
    ),
];

/// Programs that give their words to a shell.
pub(super) const JOINERS: &str = "watch parallel sem hyperfine tmux screen byobu entr cmd cmd.exe concurrently cross-env-shell pee pm2 pueue condor_run pdsh pssh clush sops";

/// Options whose value is a text for a shell, or a command.
pub(super) const TEXTS: [(&str, &str); 27] = [
    ("su runuser sg script flock capsh", "-c --command --session-command"),
    ("env", "-S --split-string"),
    ("npm npx pnpm yarn bunx", "-c --call"),
    ("split gsplit", "--filter"),
    ("bpftrace uftrace asciinema termtosvg chokidar", "-c --command"),
    ("ttyrec", "-e"),
    ("nc ncat netcat", "-e -c --exec --sh-exec"),
    ("fzf sk", "--preview --bind --execute"),
    ("gcloud fly flyctl", "-C --command"),
    ("ansible", "-a --args"),
    ("sbatch", "--wrap"),
    ("bat mysql mariadb", "--pager"),
    ("sftp scp", "-S"),
    ("tcpdump", "-z"),
    ("watchman-make", "--run"),
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
pub(super) const ESCAPES: [(&str, &str); 9] = [
    ("psql mysql mariadb sqlite3", "\\! .shell .system"),
    ("gdb lldb", "shell ! python"),
    ("make gmake", "--eval SHELL= $(shell"),
    ("vi vim nvim ex view less more", "+! +:!"),
    ("ed red dc ftp lftp sftp", "!"),
    ("m4", "syscmd"),
    ("tex latex pdftex pdflatex xelatex lualatex", "write18"),
    ("apt apt-get", "Invoke"),
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
pub(super) const COMMANDS: [&str; 11] = [
    "PAGER", "_WRAPPER", "EDITOR", "VISUAL", "BROWSER", "COMMAND", "DIFF", "ASKPASS", "GIT_SSH", "_RSH",
    "LESSOPEN",
];

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
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\n');
    let is_word = |(at, _): (usize, &str)| {
        let (before, after) = (list.as_bytes()[..at].last(), list.as_bytes().get(at + word.len()));
        before.is_none_or(is_between) && after.is_none_or(is_between)
    };
    !word.is_empty() && !word.as_bytes().iter().any(is_between) && list.match_indices(word).any(is_word)
}
