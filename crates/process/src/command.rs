//! Resolves a [`ProcessSpec`] to a command for the system: finds the program and checks arguments and environment.
//!
//! Each fault that can be found before the spawn has its own error here, so that "the program is missing" never means a missing
//! folder. Other faults (races, interpreters) come back from the spawn as an errno.

use super::batch_file::shim_at;
use super::command_fault::{
    cwd_missing, cwd_refused, is_missing, no_such_file, not_executable, not_found, program_refused,
};
use super::local_bins::{local_bins, with_local_bins};
use super::resolved_command::ResolvedCommand;
use super::shim::Shim;
use super::spec::{Containment, Environment, EnvironmentBase, Input, ProcessSpec, Stdio, Strays};
use ground::error::{Error, ErrorCode, Result};
use ground::os::{
    ContainedFolders, DEFAULT_PATH, Fault, HostFolder, IS_A_DIRECTORY, LONGEST_ARGUMENT, LONGEST_CWD,
    is_path, is_same_variable, may_execute, open_input, program_files,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the mark that every process of a run inherits.
pub(crate) const MARK: &str = "SHEEPDOG_RUN";

/// The name that the guards give themselves, and are called by.
pub(crate) const GUARD: &str = "sheepdog-guard";

/// Checks and finds everything. Touches the file system: call it off the JavaScript thread.
pub(crate) fn resolve(spec: &ProcessSpec, mark: String) -> Result<ResolvedCommand> {
    check_text("command", &spec.command)?;
    if spec.command.is_empty() {
        return Err(Error::invalid_option("command", "expected the name or path of a program, got \"\""));
    }
    for (index, arg) in spec.args.iter().enumerate() {
        check_text(&format!("args[{index}]"), arg)?;
        check_length(&format!("args[{index}]"), arg.len())?;
    }
    if spec.containment == Containment::Strict && spec.strays == Strays::Keep {
        return Err(Error::invalid_option(
            "strays",
            "\"keep\" cannot be combined with `containment: \"strict\"`: the namespace ends with the command",
        ));
    }
    check_stdio(spec)?;
    let mut environment = build_environment(&spec.environment)?;
    if let Stdio::Terminal(_) = spec.stdio {
        describe_terminal(&mut environment, &spec.environment);
    }
    if let Some(folder) = &spec.prefer_local {
        let folder = spec.named_cwd().map_or_else(|| folder.clone(), |cwd| cwd.join(folder));
        let path = with_local_bins(&folder, path_of(&environment));
        set(&mut environment, "PATH", Some(path));
    }
    set(&mut environment, MARK, Some(&mark));
    if let Some(cwd) = &spec.cwd {
        check_text("cwd", &cwd.to_string_lossy())?;
        check_cwd(&spec.folder.reach(cwd), &spec.folder.named(cwd))?;
    }
    let path = path_of(&environment);
    let found = find_program(&spec.command, spec, path)?;
    let mut argv = vec![OsString::from(&spec.command)];
    let program = match shim_at(&found) {
        Some(shim) => {
            let (program, leading) = behind(shim, &found, spec, |name| find_program(name, spec, path))?;
            argv.extend(leading);
            program
        }
        None => found,
    };
    argv.extend(spec.args.iter().map(OsString::from));
    let input = match &spec.input {
        Input::File(path) => Some(opened_input(path, spec)?),
        Input::Null | Input::Bytes(_) | Input::Pipe | Input::Inherit => None,
    };
    let (cwd, folder) = (spec.cwd.clone(), spec.folder.clone());
    Ok(ResolvedCommand { program, argv, environment, cwd, folder, mark, input })
}

/// Refuses combinations of stdio and input that are not supported.
fn check_stdio(spec: &ProcessSpec) -> Result<()> {
    if spec.stdio == Stdio::Inherit && spec.echo.is_some() {
        return Err(Error::invalid_option(
            "echo",
            "cannot be combined with `stdio: \"inherit\"`, which shows the output already",
        ));
    }
    match (&spec.stdio, &spec.input) {
        (Stdio::Piped, _) | (Stdio::Inherit, Input::Null | Input::Inherit) => Ok(()),
        (Stdio::Inherit, _) => Err(Error::invalid_option(
            "input",
            "cannot be combined with `stdio: \"inherit\"`: the program reads the stdin of this process",
        )),
        (Stdio::Terminal(_), Input::Null | Input::Bytes(_) | Input::Pipe) => Ok(()),
        (Stdio::Terminal(_), Input::File(_) | Input::Inherit) => Err(Error::invalid_option(
            "input",
            "a file cannot be the input of a terminal: pass its content, or a stream",
        )),
    }
}

/// Sets the variables that describe the program's terminal. The host's own terminal is another one, of another size.
fn describe_terminal(variables: &mut Vec<(OsString, OsString)>, environment: &Environment) {
    let is_given = |name: &str| environment.changes.iter().any(|(given, _)| given == name);
    for name in ["COLUMNS", "LINES"] {
        if !is_given(name) {
            set(variables, name, None::<&str>);
        }
    }
    if !is_given("TERM") && !variables.iter().any(|(name, value)| name == "TERM" && value != "dumb") {
        set(variables, "TERM", Some("xterm-256color"));
    }
}

fn opened_input(path: &Path, spec: &ProcessSpec) -> Result<File> {
    let named = spec.named_cwd().map_or_else(|| path.to_path_buf(), |cwd| cwd.join(path));
    // A program without a sandbox can read the targets of links itself, so links are checked for sandboxed programs only.
    let contained = spec.sandbox.as_ref().map(|_| spec.contained()).unwrap_or_default();
    let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
    let path = if spec.sandbox.is_some() { named.clone() } else { spec.reach(path) };
    let failed = |problem: String, errno: i32| {
        let message = format!("`input.file`: {problem}: nothing was started");
        Error::new(ErrorCode::ProcessInputFailed, message)
            .with("file", named.to_string_lossy().into_owned())
            .with("errno", errno)
    };
    let file = open_input(&path, &contained)
        .map_err(|error| Fault::of("open", Some(&named), &error))
        .map_err(|fault| failed(fault.to_string(), fault.errno))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(failed(format!("{} is a directory", named.display()), IS_A_DIRECTORY));
    }
    Ok(file)
}

fn check_text(path: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid_option(
            path,
            "contains a NUL character, which cannot be passed to a program",
        ));
    }
    Ok(())
}

fn check_length(path: &str, bytes: usize) -> Result<()> {
    if let Some(longest) = LONGEST_ARGUMENT.filter(|longest| bytes > *longest) {
        let message = format!(
            "{path} is {bytes} bytes, the system takes {longest} at most: pass long texts by `input` or a file"
        );
        return Err(Error::new(ErrorCode::ProcessArgumentTooLong, message)
            .with("bytes", bytes)
            .with("maxBytes", longest));
    }
    Ok(())
}

fn build_environment(environment: &Environment) -> Result<Vec<(OsString, OsString)>> {
    let mut variables: Vec<(OsString, OsString)> = match &environment.base {
        EnvironmentBase::Inherit => std::env::vars_os().collect(),
        EnvironmentBase::Empty => Vec::new(),
        EnvironmentBase::Variables(variables) => variables.clone(),
    };
    for (name, value) in &environment.changes {
        let path = format!("env[{name:?}]");
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            return Err(Error::invalid_option(
                &path,
                "invalid variable name: it must not be empty or contain \"=\" or NUL",
            ));
        }
        if let Some(value) = value {
            check_text(&path, value)?;
            check_length(&path, name.len() + 1 + value.len())?;
        }
        set(&mut variables, name, value.as_deref());
    }
    Ok(variables)
}

fn path_of(environment: &[(OsString, OsString)]) -> Option<&OsStr> {
    environment.iter().find(|(name, _)| is_same_variable(name, "PATH")).map(|(_, value)| value.as_os_str())
}

fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: Option<impl Into<OsString>>) {
    variables.retain(|(known, _)| !is_same_variable(known, name));
    if let Some(value) = value {
        variables.push((name.into(), value.into()));
    }
}

/// `reached` is the folder `cwd` as this process reaches it.
fn check_cwd(reached: &Path, cwd: &Path) -> Result<()> {
    let refused = |call| move |error| cwd_refused(reached, cwd, &Fault::of(call, Some(cwd), &error));
    if !reached.metadata().map_err(refused("stat"))?.is_dir() {
        return Err(cwd_missing(cwd, "is not a directory"));
    }
    if let Some(longest) = LONGEST_CWD.filter(|longest| cwd.as_os_str().len() > *longest) {
        return Err(Error::new(
            ErrorCode::ProcessSpawnFailed,
            format!(
                "the working directory {} has a path of more than {longest} characters, in which this system starts no program",
                cwd.display()
            ),
        )
        .with("errno", 0)
        .with("syscall", "chdir")
        .with("cwd", cwd.to_string_lossy().into_owned()));
    }
    may_execute(reached).map_err(refused("access"))
}

/// The places where the name of a program was looked for in vain, and the likely mistake.
fn tried_path(spec: &ProcessSpec) -> String {
    let place = match &spec.prefer_local {
        Some(_) => ", neither in `node_modules/.bin` nor on the PATH of its environment",
        None => " on the PATH of its environment",
    };
    let mistake = command_line(&spec.command).or_else(|| local_program(spec));
    format!("{place}{}", mistake.unwrap_or_default())
}

/// The hint for a program of the project, which is run by its name only with `preferLocal`.
fn local_program(spec: &ProcessSpec) -> Option<String> {
    if spec.prefer_local.is_some() {
        return None;
    }
    let folder = spec.named_cwd()?;
    let local = local_bins(&folder).map(|bin| bin.join(&spec.command)).find(|file| file.is_file())?;
    Some(format!("; {} exists: pass `preferLocal: true` to run it", local.display()))
}

/// The hint for a whole command line in one string, which no shell reads.
fn command_line(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words.next().filter(|program| !is_path(program))?;
    let arguments: Vec<&str> = words.collect();
    let is_line = !arguments.is_empty();
    is_line.then(|| format!("; arguments are an array of their own: run({program:?}, {arguments:?})"))
}

/// Finds a program like a shell: a name with a slash is a path (relative to the program's own `cwd`), others are looked up on
/// PATH.
fn find_program(command: &str, spec: &ProcessSpec, path: Option<&OsStr>) -> Result<PathBuf> {
    let named = |program: &Path| {
        let cwd = spec.named_cwd().unwrap_or_default();
        cwd.join(program).components().collect::<PathBuf>()
    };
    // The system looks for a relative path in the program's own folder, which is entered first.
    let executed = |program: PathBuf| match &spec.cwd {
        Some(cwd) if cwd.is_absolute() => cwd.join(program).components().collect(),
        _ => HostFolder::executed(program),
    };
    if is_path(command) {
        let (program, probed) = first_of(program_files(PathBuf::from(command)), spec);
        return match probed {
            Probe::Program => Ok(executed(program)),
            Probe::Missing => {
                Err(no_such_file(command, &named(&program), command_line(command).unwrap_or_default()))
            }
            Probe::NotExecutable => Err(not_executable(command, &spec.reach(&program), &named(&program))),
            Probe::Unknown(error) => {
                Err(program_refused(command, &Fault::of("stat", Some(&named(&program)), &error)))
            }
        };
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let (mut denied, mut unknown) = (None, None);
    for folder in std::env::split_paths(path) {
        // An empty entry is the current folder.
        let (program, probed) = first_of(program_files(folder.join(command)), spec);
        match probed {
            Probe::Program => return Ok(executed(program)),
            Probe::NotExecutable => denied = denied.or(Some(program)),
            Probe::Unknown(error) => unknown = unknown.or(Some((program, error))),
            Probe::Missing => {}
        }
    }
    match (denied, unknown) {
        (Some(program), _) => Err(not_executable(command, &spec.reach(&program), &named(&program))),
        (None, Some((program, error))) => {
            let fault = Fault::of("stat", Some(&named(&program)), &error);
            let tried = format!("{} (one folder could not be searched: {fault})", tried_path(spec));
            Err(not_found(command, &tried))
        }
        (None, None) => Err(not_found(command, &tried_path(spec))),
    }
}

/// The program that a batch file starts, and the arguments before the given ones. An interpreter beside the batch file comes first.
fn behind(
    shim: Shim,
    batch_file: &Path,
    spec: &ProcessSpec,
    find: impl FnOnce(&str) -> Result<PathBuf>,
) -> Result<(PathBuf, Vec<OsString>)> {
    let Some(interpreter) = shim.interpreter else { return Ok((shim.file, Vec::new())) };
    let beside = first_of(program_files(batch_file.with_file_name(&interpreter)), spec);
    let program = match beside {
        (program, Probe::Program) => program,
        _ => find(&interpreter)?,
    };
    let leading = shim.leading.into_iter().map(OsString::from);
    Ok((program, leading.chain([shim.file.into_os_string()]).collect()))
}

/// The first program of these; without one, the first that is there but no program, else the first path.
fn first_of(files: Vec<PathBuf>, spec: &ProcessSpec) -> (PathBuf, Probe) {
    let mut best: Option<(PathBuf, Probe)> = None;
    for file in files {
        let found = probe(&spec.reach(&file));
        match (&best, &found) {
            (_, Probe::Program) => return (file, found),
            (None, _) | (Some((_, Probe::Missing)), Probe::NotExecutable | Probe::Unknown(_)) => {
                best = Some((file, found));
            }
            _ => {}
        }
    }
    best.unwrap_or((PathBuf::new(), Probe::Missing))
}

enum Probe {
    Program,
    NotExecutable,
    Missing,
    /// Nobody can tell whether there is such a file.
    Unknown(io::Error),
}

fn probe(program: &Path) -> Probe {
    match program.metadata() {
        Err(error) if is_missing(&error) => Probe::Missing,
        Err(error) => Probe::Unknown(error),
        Ok(metadata) if metadata.is_file() && may_execute(program).is_ok() => Probe::Program,
        Ok(_) => Probe::NotExecutable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn resolve_in(folder: &Path, command: &str) -> Result<ResolvedCommand> {
        let mut spec = ProcessSpec::new(command, ["x"]);
        spec.environment = Environment {
            base: EnvironmentBase::Empty,
            changes: vec![("PATH".into(), Some(folder.to_string_lossy().into_owned()))],
        };
        resolve(&spec, "mark".into())
    }

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(name), "#!/bin/sh\n").expect("a file");
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).expect("a mode");
        folder
    }

    fn code(result: Result<ResolvedCommand>) -> &'static str {
        result.expect_err("an error").code().as_str()
    }

    #[test]
    fn finds_the_program_on_the_path_it_would_be_given() {
        let folder = folder_with("tool", 0o755);
        let command = resolve_in(folder.path(), "tool").expect("found");
        assert_eq!(command.program, folder.path().join("tool"));
        assert_eq!(command.argv, ["tool", "x"]);
        assert!(command.environment.contains(&(MARK.into(), "mark".into())));
    }

    #[test]
    fn names_each_fault_of_the_program() {
        let folder = folder_with("tool", 0o644);
        assert_eq!(code(resolve_in(folder.path(), "other")), "PROCESS_NOT_FOUND");
        assert_eq!(code(resolve_in(folder.path(), "./other")), "PROCESS_NOT_FOUND");
        assert_eq!(code(resolve_in(folder.path(), "/")), "PROCESS_NOT_EXECUTABLE");
        assert_eq!(code(resolve_in(folder.path(), "")), "INVALID_OPTION");
        assert_eq!(code(resolve_in(folder.path(), "a\0b")), "INVALID_OPTION");
        // Without the execute bit nobody may run it, root included.
        assert_eq!(code(resolve_in(folder.path(), "tool")), "PROCESS_NOT_EXECUTABLE");
    }

    #[test]
    fn tells_where_it_looked_and_what_was_probably_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let bins = folder.path().join("node_modules/.bin");
        fs::create_dir_all(&bins).expect("a folder");
        fs::write(bins.join("local"), "#!/bin/sh\n").expect("a file");
        fs::set_permissions(bins.join("local"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let message = |command: &str, prefer_local: Option<&str>| {
            let mut spec = ProcessSpec::new(command, [""; 0]);
            spec.environment.changes = vec![("PATH".into(), Some("/nowhere".into()))];
            spec.cwd = Some(folder.path().join("node_modules"));
            spec.prefer_local = prefer_local.map(Into::into);
            resolve(&spec, String::new()).expect_err("an error").to_string()
        };
        let on_path = "program not found on the PATH of its environment";
        assert!(message("other", None).ends_with(&format!("other: {on_path}")));
        assert!(message("npm test", None).ends_with("array of their own: run(\"npm\", [\"test\"])"));
        assert!(message("ls -la /tmp", None).ends_with("run(\"ls\", [\"-la\", \"/tmp\"])"));
        let local = format!(
            "local: {on_path}; {} exists: pass `preferLocal: true` to run it",
            bins.join("local").display()
        );
        assert!(message("local", None).ends_with(&local), "{}", message("local", None));
        let neither =
            "other: program not found, neither in `node_modules/.bin` nor on the PATH of its environment";
        assert!(message("other", Some("")).ends_with(neither));
        let program = folder.path().join("node_modules/other");
        let missing = format!("./other: program not found: {} does not exist", program.display());
        assert!(message("./other", None).ends_with(&missing), "{}", message("./other", None));
    }

    #[test]
    fn a_relative_program_is_found_from_its_own_cwd() {
        let folder = folder_with("tool", 0o755);
        let mut spec = ProcessSpec::new("./tool", [""; 0]);
        spec.cwd = Some(folder.path().to_path_buf());
        assert_eq!(resolve(&spec, String::new()).expect("found").program, folder.path().join("tool"));
    }

    #[test]
    fn what_is_relative_is_reached_without_the_name_of_the_hosts_folder() {
        let folder = folder_with("tool", 0o755);
        let mut spec = ProcessSpec::new("./tool", [""; 0]);
        spec.folder = HostFolder::at(folder.path());
        let moved = folder.path().with_extension("moved");
        fs::rename(folder.path(), &moved).expect("another name");
        let command = resolve(&spec, String::new()).expect("found");
        assert_eq!((command.program.as_path(), command.cwd.as_deref()), (Path::new("./tool"), None));
        spec.command = "./other".into();
        let error = resolve(&spec, String::new()).expect_err("no such program");
        assert!(
            error.message().contains(&format!("{} does not exist", moved.join("other").display())),
            "{error}"
        );
        (spec.command, spec.cwd) = ("sh".into(), Some("below".into()));
        assert_eq!(code(resolve(&spec, String::new())), "PROCESS_CWD_MISSING");
        fs::create_dir(moved.join("below")).expect("a folder");
        assert_eq!(resolve(&spec, String::new()).expect("found").cwd.as_deref(), Some(Path::new("below")));
        fs::remove_dir_all(&moved).expect("removed");
        spec.cwd = None;
        resolve(&spec, String::new()).expect("a program elsewhere needs no name of the folder");
    }

    #[test]
    fn a_missing_folder_is_not_a_missing_program() {
        let mut spec = ProcessSpec::new("sh", [""; 0]);
        spec.cwd = Some("/nonexistent/folder".into());
        assert_eq!(code(resolve(&spec, String::new())), "PROCESS_CWD_MISSING");
        spec.cwd = Some("/etc/passwd".into());
        let error = resolve(&spec, String::new()).expect_err("no folder");
        assert_eq!(error.code().as_str(), "PROCESS_CWD_MISSING");
        assert!(error.message().contains("is not a directory"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_argument_longer_than_the_system_takes_is_found_before_the_spawn() {
        let mut spec = ProcessSpec::new("sh", ["a".repeat(131_071)]);
        assert!(resolve(&spec, String::new()).is_ok());
        spec.args = vec!["a".repeat(200_000)];
        let error = resolve(&spec, String::new()).expect_err("too long");
        assert_eq!(error.code(), ErrorCode::ProcessArgumentTooLong);
        assert_eq!(error.facts()["bytes"], 200_000);
    }

    #[test]
    fn a_wrong_variable_names_its_path() {
        for name in ["", "A=B", "A\0"] {
            let mut spec = ProcessSpec::new("sh", [""; 0]);
            spec.environment.changes = vec![(name.to_owned(), Some("1".into()))];
            let error = resolve(&spec, String::new()).expect_err("a bad name");
            assert_eq!(error.code(), ErrorCode::InvalidOption);
            assert!(error.message().starts_with("env["), "{}", error.message());
        }
    }

    #[test]
    fn changes_replace_and_remove_variables() {
        let environment = Environment {
            base: EnvironmentBase::Variables(vec![("A".into(), "1".into()), ("B".into(), "2".into())]),
            changes: vec![("A".into(), None), ("B".into(), Some("3".into())), ("C".into(), Some("4".into()))],
        };
        let built = build_environment(&environment).expect("an environment");
        assert_eq!(built, [("B".into(), "3".into()), ("C".into(), "4".into())] as [(OsString, OsString); 2]);
    }
}
