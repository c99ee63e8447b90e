//! The words of other processes: program, arguments and variables, read from their memory. The system has no other way to them. Empty
//! where they may not be read, as with processes of other users.

use super::opened::opened;
use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Threading::{
    PROCESS_BASIC_INFORMATION, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_VM_READ, QueryFullProcessImageNameW,
};
use windows_sys::Win32::UI::Shell::CommandLineToArgvW;

#[link(name = "ntdll")]
unsafe extern "system" {
    fn NtQueryInformationProcess(
        process: HANDLE,
        class: u32,
        into: *mut c_void,
        bytes: u32,
        told: *mut u32,
    ) -> i32;
}

/// The class of information that has the address of the process's own data.
const BASIC: u32 = 0;

// Places in these data, the same in all versions of 64-bit Windows so far.
const PARAMETERS: usize = 0x20;
const COMMAND_LINE: usize = 0x70;
const ENVIRONMENT: usize = 0x80;
const ENVIRONMENT_BYTES: usize = 0x3f0;

/// More is no command line and no environment of a living process.
const MOST_BYTES: usize = 1 << 20;
/// The longest path of a program.
const LONGEST_PATH: usize = 32_768;

/// A process's program and arguments, each ended by NUL.
pub fn arguments_of(pid: i32) -> Vec<u8> {
    let line = Words::of(pid).and_then(|words| words.command_line()).unwrap_or_default();
    split(&line).iter().flat_map(|word| word.bytes().chain([0])).collect()
}

/// A process's environment at its start, each variable ended by NUL.
pub fn variables_of(pid: i32) -> Vec<u8> {
    let block = Words::of(pid).and_then(|words| words.environment()).unwrap_or_default();
    // An empty variable ends it.
    let variables = block.split(|unit| *unit == 0).take_while(|variable| !variable.is_empty());
    variables
        .flat_map(|variable| String::from_utf16_lossy(variable).into_bytes().into_iter().chain([0]))
        .collect()
}

/// The name of a process's program, without its folder and its ending.
pub fn short_name_of(pid: i32) -> String {
    let Some(process) = opened(pid, PROCESS_QUERY_LIMITED_INFORMATION) else { return String::new() };
    let mut path = vec![0; LONGEST_PATH];
    let mut length = LONGEST_PATH as u32;
    // SAFETY: the handle and the text, of this length, live for the call.
    let told =
        unsafe { QueryFullProcessImageNameW(process.as_raw_handle(), 0, path.as_mut_ptr(), &mut length) };
    if told == 0 {
        return String::new();
    }
    let path = String::from_utf16_lossy(path.get(..length as usize).unwrap_or_default());
    let name = path.rsplit('\\').next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name).to_owned()
}

/// The words of a command line, as programs take it apart.
fn split(line: &[u16]) -> Vec<String> {
    if line.is_empty() {
        return Vec::new();
    }
    let line: Vec<u16> = line.iter().copied().chain([0]).collect();
    let mut count = 0;
    // SAFETY: the text ends with a NUL and outlives the call.
    let words = unsafe { CommandLineToArgvW(line.as_ptr(), &mut count) };
    if words.is_null() {
        return Vec::new();
    }
    let text = |index: usize| {
        // SAFETY: the list has this many texts, each ended by NUL, until it is freed below.
        unsafe {
            let word = *words.add(index);
            let length = (0..).take_while(|at| *word.add(*at) != 0).count();
            String::from_utf16_lossy(std::slice::from_raw_parts(word, length))
        }
    };
    let split = (0..usize::try_from(count).unwrap_or(0)).map(text).collect();
    // SAFETY: made by the call above, and freed once.
    unsafe { LocalFree(words.cast()) };
    split
}

struct Words {
    process: OwnedHandle,
    /// The address of the parameters that the process was started with.
    parameters: usize,
}

impl Words {
    fn of(pid: i32) -> Option<Words> {
        let process = opened(pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_VM_READ)?;
        let mut facts = PROCESS_BASIC_INFORMATION::default();
        let bytes = size_of::<PROCESS_BASIC_INFORMATION>() as u32;
        let place = (&raw mut facts).cast();
        // SAFETY: the handle and the structure, of this size, live for the call.
        let status = unsafe {
            NtQueryInformationProcess(process.as_raw_handle(), BASIC, place, bytes, std::ptr::null_mut())
        };
        let data = facts.PebBaseAddress as usize;
        if status < 0 || data == 0 {
            return None;
        }
        let mut words = Words { process, parameters: 0 };
        words.parameters = words.number(data + PARAMETERS)?;
        (words.parameters != 0).then_some(words)
    }

    /// The text of the command line. Its length and its address are beside each other.
    fn command_line(&self) -> Option<Vec<u16>> {
        let bytes = self.number(self.parameters + COMMAND_LINE)? & 0xffff;
        self.text(self.number(self.parameters + COMMAND_LINE + size_of::<usize>())?, bytes)
    }

    fn environment(&self) -> Option<Vec<u16>> {
        let bytes = self.number(self.parameters + ENVIRONMENT_BYTES)?;
        self.text(self.number(self.parameters + ENVIRONMENT)?, bytes)
    }

    fn number(&self, address: usize) -> Option<usize> {
        let mut number = [0; size_of::<usize>()];
        self.read(address, &mut number)?;
        Some(usize::from_ne_bytes(number))
    }

    fn text(&self, address: usize, bytes: usize) -> Option<Vec<u16>> {
        let mut text = vec![0; bytes.min(MOST_BYTES)];
        self.read(address, &mut text)?;
        Some(text.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect())
    }

    fn read(&self, address: usize, into: &mut [u8]) -> Option<()> {
        let mut read = 0;
        // SAFETY: the handle and the place, of this length, live for the call. The address is the other process's.
        let told = unsafe {
            ReadProcessMemory(
                self.process.as_raw_handle(),
                address as *const c_void,
                into.as_mut_ptr().cast(),
                into.len(),
                &mut read,
            )
        };
        (told != 0 && read == into.len()).then_some(())
    }
}
