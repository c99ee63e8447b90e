//! PURE. The signals of Unix by name. Their numbers differ between systems; `os::signal_of` knows them.

/// Declares the signals with their names.
macro_rules! signals {
    ($($signal:ident $name:literal,)*) => {
        /// A signal to a process, under the name that POSIX or a system gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Signal {
            $($signal,)*
        }

        impl Signal {
            pub const ALL: &'static [Signal] = &[$(Signal::$signal,)*];

            /// The signal's name, "SIGTERM".
            pub const fn name(self) -> &'static str {
                match self {
                    $(Signal::$signal => $name,)*
                }
            }

            /// The signal of this name.
            pub fn from_name(name: &str) -> Option<Signal> {
                match name {
                    $($name => Some(Signal::$signal),)*
                    _ => None,
                }
            }
        }
    };
}

impl Signal {
    /// Whether its default action stops a process.
    pub const fn stops(self) -> bool {
        matches!(self, Signal::Stop | Signal::Tstp | Signal::TtIn | Signal::TtOu)
    }
}

signals! {
    Abrt "SIGABRT",
    Alrm "SIGALRM",
    Bus "SIGBUS",
    Chld "SIGCHLD",
    Cont "SIGCONT",
    Emt "SIGEMT",
    Fpe "SIGFPE",
    Hup "SIGHUP",
    Ill "SIGILL",
    Info "SIGINFO",
    Int "SIGINT",
    Io "SIGIO",
    Kill "SIGKILL",
    Pipe "SIGPIPE",
    Prof "SIGPROF",
    Pwr "SIGPWR",
    Quit "SIGQUIT",
    Segv "SIGSEGV",
    StkFlt "SIGSTKFLT",
    Stop "SIGSTOP",
    Sys "SIGSYS",
    Term "SIGTERM",
    Trap "SIGTRAP",
    Tstp "SIGTSTP",
    TtIn "SIGTTIN",
    TtOu "SIGTTOU",
    Urg "SIGURG",
    Usr1 "SIGUSR1",
    Usr2 "SIGUSR2",
    VtAlrm "SIGVTALRM",
    Winch "SIGWINCH",
    Xcpu "SIGXCPU",
    Xfsz "SIGXFSZ",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_by_its_name() {
        for signal in Signal::ALL {
            assert_eq!(Signal::from_name(signal.name()), Some(*signal));
        }
        assert_eq!(Signal::from_name("SIGNONE"), None);
    }
}
