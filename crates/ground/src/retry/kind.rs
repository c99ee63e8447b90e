//! PURE: the kinds of failures.

crate::named! {
    /// The cause of a failure. JavaScript sees its name as `error.kind`.
    #[derive(Hash)]
    pub enum ErrorKind {
        /// No key, or a wrong one.
        Auth = "auth",
        /// Too many requests for now.
        RateLimit = "rate_limit",
        /// No money or allowance is left.
        Quota = "quota",
        /// The server has too much to do.
        Overloaded = "overloaded",
        /// The conversation is too long for the model.
        ContextLength = "context_length",
        /// The request itself is wrong: an unknown model, an unsupported schema.
        InvalidRequest = "invalid_request",
        /// No connection, or it was lost.
        Network = "network",
        /// The server failed.
        Server = "server",
        /// The key is valid, but it does not permit this request.
        Permission = "permission",
        Timeout = "timeout",
        /// The caller ended the operation.
        Aborted = "aborted",
        Unknown = "unknown",
    }
}

impl ErrorKind {
    /// Whether such failures usually pass by themselves.
    pub fn is_transient(self) -> bool {
        use ErrorKind::*;
        matches!(self, RateLimit | Overloaded | Network | Server | Timeout)
    }
}
