//! Default timeouts of requests, PURE.

use std::time::Duration;

/// The timeout of a request, unless the caller sets one. Short where the runtime answers by itself, a day where a person answers,
/// a quarter of an hour for all others.
pub fn request_timeout(method: &str) -> Duration {
    const QUICK: Duration = Duration::from_secs(30);
    const LOADING: Duration = Duration::from_secs(180);
    const LONG: Duration = Duration::from_secs(15 * 60);
    const PERSON: Duration = Duration::from_secs(24 * 60 * 60);
    match method {
        "ping"
        | "status.get"
        | "auth.getStatus"
        | "session.list"
        | "session.getMetadata"
        | "session.getLastId" => QUICK,
        "session.getForeground" | "session.setForeground" | "session.abort" | "session.detach" => QUICK,
        "session.destroy"
        | "session.eventLog.registerInterest"
        | "session.options.update"
        | "session.log" => QUICK,
        method if method.contains(".handlePending") => QUICK,
        "session.send" | "models.list" => Duration::from_secs(60),
        "session.create" | "session.resume" | "session.getMessages" | "session.delete" => LOADING,
        "session.ui.elicitation" | "session.factory.run" | "session.factory.resume" => PERSON,
        "session.tasks.waitForPending" => PERSON,
        _ => LONG,
    }
}
