//! PURE: the caller's own tools, and the names that agents make of them.

use crate::harness::Level;

/// The name of the MCP server that offers the caller's tools. lib/harness/session/tool_server.ts starts it.
const SERVER: &str = "sheepdog";

/// A tool that the caller passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTool {
    pub name: String,
    /// It changes nothing, so every level allows it.
    pub reads_only: bool,
}

impl OwnTool {
    /// The tool that an agent means by a name of its own, such as `mcp__sheepdog__ticket`. A name without the server may be that of
    /// another tool.
    pub(crate) fn find<'t>(tools: &'t [OwnTool], told: &str) -> Option<&'t OwnTool> {
        let told = told.strip_prefix("Tool: ").unwrap_or(told);
        let plain = plain(told);
        let qualified = ["mcp__", "mcp_", ""].iter().find_map(|prefix| {
            let rest = plain.strip_prefix(prefix)?.strip_prefix(SERVER)?;
            Some(rest.strip_prefix("__").or_else(|| rest.strip_prefix('_')).unwrap_or_default())
        });
        tools.iter().find(|tool| {
            let shown = told.strip_prefix(&tool.name).and_then(|rest| rest.strip_prefix(" ("));
            qualified.is_some_and(|name| name == self::plain(&tool.name))
                // gemini and qwen: "ticket (sheepdog MCP Server)", at times with the arguments behind it.
                || shown.and_then(|rest| rest.strip_prefix(SERVER)).is_some_and(|rest| rest.starts_with(" MCP Server)"))
        })
    }

    /// Whether the level allows it without a rule, because the caller gave it.
    pub(crate) fn is_allowed_at(&self, level: Level) -> bool {
        match level {
            Level::Edit | Level::Auto => true,
            Level::Plan => self.reads_only,
            Level::Ask => false,
        }
    }
}

/// Agents replace what their models do not take in a name.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_what_each_agent_makes_of_its_name() {
        let tools =
            ["ticket", "find-it", "a.b"].map(|name| OwnTool { name: name.to_owned(), reads_only: false });
        for (told, expected) in [
            ("mcp__sheepdog__ticket", Some("ticket")),
            ("mcp_sheepdog_ticket", Some("ticket")),
            ("sheepdog_ticket", Some("ticket")),
            ("sheepdog-ticket", Some("ticket")),
            ("sheepdog/ticket", Some("ticket")),
            ("sheepdog.ticket", Some("ticket")),
            ("Tool: sheepdog/ticket", Some("ticket")),
            ("ticket (sheepdog MCP Server)", Some("ticket")),
            ("ticket (sheepdog MCP Server): {\"id\":7}", Some("ticket")),
            ("mcp__sheepdog__find-it", Some("find-it")),
            ("mcp__sheepdog__find_it", Some("find-it")),
            ("mcp__sheepdog__a_b", Some("a.b")),
            ("ticket", None),
            ("mcp__other__ticket", None),
            ("ticket (other MCP Server)", None),
            ("mcp__sheepdog__ticket2", None),
            ("mcp__sheepdog__", None),
            ("sheepdog", None),
            ("", None),
        ] {
            assert_eq!(OwnTool::find(&tools, told).map(|tool| tool.name.as_str()), expected, "{told}");
        }
    }
}
