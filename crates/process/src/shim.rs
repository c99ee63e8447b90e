//! PURE. The batch files by which npm puts a program on the search path of Windows. The program that one names is started itself: so
//! no shell stands between, which would read the arguments by rules of its own, and takes 8,191 characters at most.

use std::path::{Path, PathBuf};

/// The program that a batch file of npm starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shim {
    /// The name of the program that reads the script, for example `node`; `None` when the file is a program itself.
    pub interpreter: Option<String>,
    /// Arguments before the file.
    pub leading: Vec<String>,
    /// The script or the program.
    pub file: PathBuf,
}

/// The folder of the batch file, in its text.
const FOLDER: &str = "\"%dp0%\\";
/// The interpreter, and the end of the line.
const INTERPRETER: &str = "\"%_prog%\"";
const ARGUMENTS: &str = "%*";

/// Reads the text of the batch file at this path. `None`: it is not one of npm's, or does more than start a program.
pub(crate) fn parse(text: &str, path: &Path) -> Option<Shim> {
    let folder = path.parent()?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // A line that sets a variable of the program's environment.
    if lines.clone().any(|line| line.to_ascii_lowercase().starts_with("@set ")) {
        return None;
    }
    let interpreter = lines.clone().find_map(|line| {
        line.strip_prefix("SET \"_prog=")?.strip_suffix('"').filter(|name| !name.contains('%'))
    });
    let last = lines.next_back()?;
    let start = last.rsplit_once(" & ").map_or(last, |(_, start)| start).trim();
    let start = start.strip_suffix(ARGUMENTS)?.trim_end();
    let (before, file) = start.split_once(FOLDER)?;
    let file = file.strip_suffix('"').filter(|file| !file.contains(['"', '%']))?;
    let file = file.split('\\').fold(folder.to_owned(), |path, part| match part {
        ".." => path.parent().map(Path::to_owned).unwrap_or(path),
        part => path.join(part),
    });
    let before = before.trim();
    if before.is_empty() {
        return Some(Shim { interpreter: None, leading: Vec::new(), file });
    }
    let leading = before.strip_prefix(INTERPRETER)?;
    if leading.contains(['"', '%']) {
        return None;
    }
    let leading = leading.split_whitespace().map(str::to_owned).collect();
    Some(Shim { interpreter: Some(interpreter?.to_owned()), leading, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\n\
        CALL :find_dp0\r\n";
    const NODE: &str = "\r\nIF EXIST \"%dp0%\\node.exe\" (\r\n  SET \"_prog=%dp0%\\node.exe\"\r\n) ELSE (\r\n  \
        SET \"_prog=node\"\r\n  SET PATHEXT=%PATHEXT:;.JS;=;%\r\n)\r\n\r\n\
        endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & ";

    fn read(rest: &str) -> Option<Shim> {
        parse(&format!("{HEAD}{rest}"), Path::new("/folder/bin/tool.cmd"))
    }

    fn shim(interpreter: Option<&str>, leading: &[&str], file: &str) -> Option<Shim> {
        let leading = leading.iter().map(|word| (*word).to_owned()).collect();
        Some(Shim { interpreter: interpreter.map(str::to_owned), leading, file: file.into() })
    }

    #[test]
    fn a_script_is_read_by_its_interpreter() {
        let line = "\"%_prog%\"  \"%dp0%\\..\\@openai\\codex\\bin\\codex.js\" %*\r\n";
        assert_eq!(
            read(&format!("{NODE}{line}")),
            shim(Some("node"), &[], "/folder/@openai/codex/bin/codex.js")
        );
        let line = "\"%_prog%\" --no-warnings --x=1 \"%dp0%\\node_modules\\a b\\c.js\" %*\r\n";
        assert_eq!(
            read(&format!("{NODE}{line}")),
            shim(Some("node"), &["--no-warnings", "--x=1"], "/folder/bin/node_modules/a b/c.js")
        );
    }

    #[test]
    fn a_program_is_started_itself() {
        let start = "endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & ";
        for start in ["", start] {
            let line = format!("{start}\"%dp0%\\..\\tool\\tool.exe\"   %*\r\n");
            assert_eq!(read(&line), shim(None, &[], "/folder/tool/tool.exe"));
        }
    }

    #[test]
    fn what_is_not_of_npm_is_left_to_the_shell() {
        let script = "\"%_prog%\"  \"%dp0%\\a.js\" %*\r\n";
        for other in [
            "",
            "@echo hello",
            "\"%dp0%\\a.exe\" --always %*",
            "\"%dp0%\\%NAME%.exe\" %*",
            "\"%dp0%\\a.exe\"",
            // Nothing says what the program is.
            script,
            &format!("@SET NODE_PATH=x\r\n{NODE}{script}"),
            &format!("{NODE}\"%_prog%\" \"--a b\" \"%dp0%\\a.js\" %*"),
            &format!("{NODE}\"%_prog%\" %OPTIONS% \"%dp0%\\a.js\" %*"),
            &format!("{NODE}{script}echo done"),
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
