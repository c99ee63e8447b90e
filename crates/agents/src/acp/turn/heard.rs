//! PURE: reads what an agent reports of its work into the digest of the turn that it belongs to.

use crate::acp::turn::tool_book::ToolBook;
use crate::acp::wire::update::{ToolUpdate, Update};
use crate::harness::{AgentEvent, Digest};

/// Reads an update. Returns one that is not about the turn's work, but about its end or the session.
pub(crate) fn hear(update: Update, digest: &mut Digest, book: &mut ToolBook) -> Option<Update> {
    match update {
        Update::Text { text, message, whole, usage } => {
            if let Some(usage) = usage {
                digest.usage.add_passing(usage);
            }
            digest.words(message.as_deref(), &text, whole);
        }
        Update::Thought { text } => digest.thought(&text),
        Update::Tool(tool) => hear_tool(book.on_update(tool), digest),
        Update::Terminal { id, data, whole, exit_code } => {
            book.on_terminal(&id, data.as_deref(), whole, exit_code);
        }
        Update::Plan(entries) => digest.tell(AgentEvent::Plan { entries }),
        Update::Used { cost: _, context, limit } => {
            if let Some(reset) = limit {
                digest.trouble.reset = Some(reset);
            }
            if let Some((used_tokens, max_tokens)) = context {
                digest.tell(AgentEvent::Context { used_tokens, max_tokens });
            }
        }
        Update::Title(title) => digest.tell(AgentEvent::Title { title }),
        Update::Commands(commands) => digest.tell(AgentEvent::Commands { commands }),
        Update::Retry { message } => digest.asked_again(message),
        Update::Warning { message } => digest.warning(&message),
        other => return Some(other),
    }
    None
}

/// Reads a question about a tool call.
pub(crate) fn hear_question(update: ToolUpdate, digest: &mut Digest, book: &mut ToolBook) {
    hear_tool(book.on_asked(update), digest);
}

fn hear_tool((events, is_new): (Vec<AgentEvent>, bool), digest: &mut Digest) {
    if is_new {
        digest.tool_called();
    }
    events.into_iter().for_each(|event| digest.tell(event));
}
