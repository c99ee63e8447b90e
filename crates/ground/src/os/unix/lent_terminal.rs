//! The controlling terminal of this process, while a program uses it. A shell takes its terminal back in the same way.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcgetsid, tcsetattr};
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp};
use std::os::fd::OwnedFd;

/// The terminal as it was before the program.
#[derive(Debug)]
pub struct LentTerminal {
    terminal: OwnedFd,
    modes: libc::termios,
}

impl LentTerminal {
    /// The controlling terminal of this process, if one of the descriptors is it.
    pub fn among(descriptors: &[OwnedFd]) -> Option<LentTerminal> {
        let session = getsid(None).ok()?;
        let own = descriptors.iter().find(|descriptor| tcgetsid(descriptor) == Ok(session))?;
        Some(LentTerminal { modes: tcgetattr(own).ok()?.into(), terminal: own.try_clone().ok()? })
    }

    /// Makes the group of this process the terminal's foreground group again, if it is another one that has ended. `restores`: sets the modes
    /// that the terminal had, because the program could not do it. A program that ends by itself leaves the modes that it wants: stty.
    pub fn take_back(self, restores: bool) {
        // The terminal stops a background group that changes it, unless it blocks the signal.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let mut before = SigSet::empty();
        if pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), Some(&mut before)).is_err() {
            return;
        }
        let own = getpgrp();
        let mut foreground = tcgetpgrp(&self.terminal);
        if let Ok(group) = foreground
            && group != own
            && kill(Pid::from_raw(-group.as_raw()), None) == Err(Errno::ESRCH)
            && tcsetpgrp(&self.terminal, own).is_ok()
        {
            foreground = Ok(own);
        }
        // In the background, the terminal is the shell's by now.
        if restores && foreground == Ok(own) {
            let _ = tcsetattr(&self.terminal, SetArg::TCSANOW, &Termios::from(self.modes));
        }
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    }
}
