//! Classifies codes, types and names of errors: of the system, Node, undici, the models' servers, and this package. PURE.

use super::kind::ErrorKind::{self, *};

/// Kind, whether a retry is worth it, and the exact codes that mean it.
const CODES: &[(ErrorKind, bool, &str)] = &[
    // Codes of the system and of Node.
    (
        Network,
        true,
        "ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ENOTFOUND EAI_AGAIN EAI_FAIL ENETUNREACH ENETDOWN \
         ENETRESET EHOSTUNREACH EHOSTDOWN EADDRNOTAVAIL ERR_STREAM_PREMATURE_CLOSE ERR_HTTP2_STREAM_ERROR \
         ERR_HTTP2_SESSION_ERROR ERR_HTTP2_GOAWAY_SESSION UND_ERR_SOCKET UND_ERR_CLOSED UND_ERR_DESTROYED \
         UND_ERR_RES_CONTENT_LENGTH_MISMATCH HPE_INVALID_CONSTANT NETWORKERROR NETWORK_ERROR ERR_NETWORK \
         APICONNECTIONERROR",
    ),
    (
        Timeout,
        true,
        "ETIMEDOUT ESOCKETTIMEDOUT TIMEOUTERROR TIMEOUT_ERR UND_ERR_CONNECT_TIMEOUT \
         UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT DEADLINE_EXCEEDED APICONNECTIONTIMEOUTERROR \
         TIMEOUT_ERROR TIMEOUT",
    ),
    (Aborted, false, "ABORTERROR ABORT_ERR UND_ERR_ABORTED APIUSERABORTERROR ERR_CANCELED CANCELLED"),
    // A certificate does not become valid by a retry.
    (
        Network,
        false,
        "CERT_HAS_EXPIRED CERT_NOT_YET_VALID DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN \
         UNABLE_TO_VERIFY_LEAF_SIGNATURE UNABLE_TO_GET_ISSUER_CERT UNABLE_TO_GET_ISSUER_CERT_LOCALLY \
         ERR_TLS_CERT_ALTNAME_INVALID ERR_SSL_WRONG_VERSION_NUMBER EPROTO",
    ),
    (InvalidRequest, false, "ERR_INVALID_URL ERR_INVALID_ARG_TYPE ERR_INVALID_ARG_VALUE UND_ERR_INVALID_ARG"),
    // Codes of the models' servers.
    (Auth, false, "AUTHENTICATION_ERROR INVALID_API_KEY UNAUTHENTICATED UNAUTHORIZED AUTHENTICATIONERROR"),
    (Permission, false, "PERMISSION_ERROR PERMISSION_DENIED FORBIDDEN PERMISSIONDENIEDERROR"),
    (
        RateLimit,
        true,
        "RATE_LIMIT_ERROR RATE_LIMIT_EXCEEDED RATE_LIMIT TOO_MANY_REQUESTS RESOURCE_EXHAUSTED \
         RATELIMITERROR",
    ),
    (
        Quota,
        false,
        "INSUFFICIENT_QUOTA QUOTA_EXCEEDED BILLING_ERROR BILLING_HARD_LIMIT_REACHED BILLING_NOT_ACTIVE",
    ),
    (Overloaded, true, "OVERLOADED_ERROR OVERLOADED UNAVAILABLE SERVICE_UNAVAILABLE ENGINE_OVERLOADED"),
    (Server, true, "API_ERROR SERVER_ERROR INTERNAL_SERVER_ERROR INTERNAL_ERROR INTERNALSERVERERROR"),
    (ContextLength, false, "CONTEXT_LENGTH_EXCEEDED STRING_ABOVE_MAX_LENGTH REQUEST_TOO_LARGE"),
    (
        InvalidRequest,
        false,
        "MODEL_NOT_FOUND NOT_FOUND_ERROR INVALID_ARGUMENT INVALID_REQUEST_ERROR BADREQUESTERROR \
         NOTFOUNDERROR UNSUPPORTED_VALUE UNKNOWN_PARAMETER",
    ),
    // Codes of this package. A process, a session or an agent that timed out may have had effects, so it is not retried
    // without the caller's decision.
    (Timeout, true, "MODEL_TIMED_OUT CONNECTION_TIMED_OUT"),
    (Server, true, "MODEL_BAD_RESPONSE"),
    (Network, true, "MODEL_UNREACHABLE RUNTIME_UNREACHABLE RESUME_TRANSIENT"),
    (Network, false, "CONNECTION_LOST RUNTIME_CLOSED"),
    (Auth, false, "RUNTIME_UNAUTHORIZED"),
    (InvalidRequest, false, "INVALID_OPTION"),
    (
        Network,
        true,
        "ERR_CONNECTION_RESET ERR_CONNECTION_REFUSED ERR_CONNECTION_CLOSED ERR_CONNECTION_ABORTED",
    ),
];

/// The kind and retry of a code (case does not matter); `None` for an unknown code.
pub fn of_code(code: &str) -> Option<(ErrorKind, bool)> {
    let code = code.to_ascii_uppercase();
    let is_named = |(.., codes): &&(_, _, &str)| codes.split(' ').any(|known| known == code);
    if let Some(&(kind, is_retried, _)) = CODES.iter().find(is_named) {
        return Some((kind, is_retried));
    }
    let ends = |endings: [&str; 2]| endings.iter().any(|ending| code.ends_with(ending));
    if is_ours(&code) && ends(["_ABORTED", "_KILLED"]) {
        Some((Aborted, false))
    } else if is_ours(&code) && ends(["_TIMED_OUT", "_IDLE"]) {
        Some((Timeout, false))
    } else {
        ends(["_TIMED_OUT", "_TIMEOUT"]).then_some((Timeout, true))
    }
}

fn is_ours(code: &str) -> bool {
    ["PROCESS_", "AGENT_", "SESSION_", "RUNTIME_", "MODEL_"].iter().any(|prefix| code.starts_with(prefix))
}
