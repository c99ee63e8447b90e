//! PURE. The signals of Unix by name. Their numbers differ between systems; `os::signal_of` knows them.

impl Signal {
    /// Whether its default action stops a process.
    pub const fn stops(self) -> bool {
        matches!(self, Signal::Stop | Signal::Tstp | Signal::TtIn | Signal::TtOu)
    }
}

crate::named! {
    /// A signal to a process, under the name that POSIX or a system gives it.
    pub enum Signal {
        Abrt = "SIGABRT",
        Alrm = "SIGALRM",
        Bus = "SIGBUS",
        Chld = "SIGCHLD",
        Cont = "SIGCONT",
        Emt = "SIGEMT",
        Fpe = "SIGFPE",
        Hup = "SIGHUP",
        Ill = "SIGILL",
        Info = "SIGINFO",
        Int = "SIGINT",
        Io = "SIGIO",
        Kill = "SIGKILL",
        Pipe = "SIGPIPE",
        Prof = "SIGPROF",
        Pwr = "SIGPWR",
        Quit = "SIGQUIT",
        Segv = "SIGSEGV",
        StkFlt = "SIGSTKFLT",
        Stop = "SIGSTOP",
        Sys = "SIGSYS",
        Term = "SIGTERM",
        Trap = "SIGTRAP",
        Tstp = "SIGTSTP",
        TtIn = "SIGTTIN",
        TtOu = "SIGTTOU",
        Urg = "SIGURG",
        Usr1 = "SIGUSR1",
        Usr2 = "SIGUSR2",
        VtAlrm = "SIGVTALRM",
        Winch = "SIGWINCH",
        Xcpu = "SIGXCPU",
        Xfsz = "SIGXFSZ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_by_its_name() {
        for signal in Signal::ALL {
            assert_eq!(Signal::parse(signal.as_str()), Some(signal));
        }
        assert_eq!(Signal::parse("SIGNONE"), None);
    }
}
