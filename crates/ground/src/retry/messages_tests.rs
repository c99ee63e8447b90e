//! Messages as services write them, each with its kind: a table in both directions.

use super::kind::ErrorKind::{self, *};
use super::words::{PHRASES, holds, of_words};

/// A message, its kind, and kinds that it also names in words that count for less.
const MESSAGES: &[(&str, ErrorKind, &[ErrorKind])] = &[
    // OpenAI
    (
        "Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys.",
        Auth,
        &[],
    ),
    (
        "You didn't provide an API key. You need to provide your API key in an Authorization header.",
        Auth,
        &[],
    ),
    ("You exceeded your current quota, please check your plan and billing details.", Quota, &[]),
    (
        "Rate limit reached for gpt-5 in organization org-x on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.",
        RateLimit,
        &[],
    ),
    (
        "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        RateLimit,
        &[],
    ),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        ContextLength,
        &[],
    ),
    (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ContextLength,
        &[],
    ),
    ("The server had an error while processing your request. Sorry about that!", Server, &[]),
    ("The model `gpt-9` does not exist or you do not have access to it.", InvalidRequest, &[]),
    ("Unsupported parameter: 'max_tokens' is not supported with this model.", InvalidRequest, &[]),
    (
        "Your organization must be verified to use the model `o3`. Please go to: https://platform.openai.com/settings/organization/general",
        Permission,
        &[],
    ),
    (
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        InvalidRequest,
        &[],
    ),
    // Anthropic
    (
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12).",
        InvalidRequest,
        &[],
    ),
    ("output_config.format: JSON schema is invalid", InvalidRequest, &[]),
    (
        "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
        InvalidRequest,
        &[],
    ),
    (
        "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        InvalidRequest,
        &[],
    ),
    (
        "There's an issue with the selected model (claude-xyz). It may not exist or you may not have access to it. Run --model to pick a different model.",
        InvalidRequest,
        &[],
    ),
    ("invalid x-api-key", Auth, &[]),
    (
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        Quota,
        &[],
    ),
    (
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
        RateLimit,
        &[],
    ),
    ("Number of request tokens has exceeded your per-minute rate limit", RateLimit, &[]),
    ("Overloaded", Overloaded, &[]),
    ("overloaded_error: Overloaded", Overloaded, &[]),
    ("prompt is too long: 203456 tokens > 200000 maximum", ContextLength, &[]),
    (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
        ContextLength,
        &[],
    ),
    ("Internal server error", Server, &[]),
    (
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        Quota,
        &[],
    ),
    // Google
    ("API key not valid. Please pass a valid API key.", Auth, &[]),
    ("Resource has been exhausted (e.g. check quota).", RateLimit, &[]),
    (
        "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
        Quota,
        &[RateLimit],
    ),
    ("The model is overloaded. Please try again later.", Overloaded, &[]),
    (
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        ContextLength,
        &[],
    ),
    (
        "Quota exceeded for quota metric 'StreamGenerateContent Requests' and limit 'StreamGenerateContent Requests per minute per user per tier' of service 'cloudcode-pa.googleapis.com'",
        RateLimit,
        &[Quota],
    ),
    (
        "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user per tier' of service 'cloudcode-pa.googleapis.com'",
        Quota,
        &[],
    ),
    ("Permission denied on resource project x.", Permission, &[]),
    ("Request contains an invalid argument.", InvalidRequest, &[]),
    (
        r#"Unknown name "$schema" at 'tools[0].function_declarations': Cannot find field."#,
        InvalidRequest,
        &[],
    ),
    (
        "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
        Server,
        &[],
    ),
    ("Deadline expired before operation could complete.", Timeout, &[]),
    // Azure
    ("Access denied due to invalid subscription key or wrong API endpoint.", Auth, &[Permission]),
    (
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier.",
        RateLimit,
        &[],
    ),
    // Bedrock
    ("Too many tokens, please wait before trying again.", RateLimit, &[ContextLength]),
    ("Too many tokens per day, please wait before trying again.", RateLimit, &[ContextLength]),
    ("Too many requests, please wait before trying again.", RateLimit, &[]),
    ("Input is too long for requested model.", ContextLength, &[]),
    ("The security token included in the request is invalid.", Auth, &[]),
    ("You don't have access to the model with the specified model ID.", Permission, &[]),
    // Mistral
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        ContextLength,
        &[],
    ),
    ("Service tier capacity exceeded for this model.", Overloaded, &[]),
    // Groq
    (
        "Rate limit reached for model `x` in organization `org` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99400, Requested 1200.",
        RateLimit,
        &[],
    ),
    (
        "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.",
        RateLimit,
        &[],
    ),
    ("Please reduce the length of the messages or completion.", ContextLength, &[]),
    // Cohere
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        ContextLength,
        &[],
    ),
    ("You are using a Trial key, which is limited to 10 API calls / minute.", RateLimit, &[]),
    // DeepSeek
    ("Insufficient Balance", Quota, &[]),
    ("Authentication Fails (no such user)", Auth, &[]),
    // Moonshot
    ("Invalid request: Your request exceeded model token limit: 262144", ContextLength, &[InvalidRequest]),
    ("Your account is suspended, please check your plan and billing details", Quota, &[]),
    ("Your account org-x request reached max request: 3, please try again after 1 seconds", RateLimit, &[]),
    // DashScope
    ("Range of input length should be [1, 129024]", ContextLength, &[]),
    ("Requests rate limit exceeded, please try again later.", RateLimit, &[]),
    (
        "Incorrect API key provided. For details, see: https://help.aliyun.com/zh/model-studio/error-code#apikey-error",
        Auth,
        &[],
    ),
    ("Access denied, please make sure your account is in good standing.", Permission, &[]),
    (
        "You exceeded your current quota, please check your plan and billing details. (AllocationQuota)",
        Quota,
        &[],
    ),
    // z.ai
    ("Usage limit reached for 5 hour. Your limit will reset at 2026-12-20 18:43:13", Quota, &[]),
    ("Prompt exceeds max length", ContextLength, &[]),
    // OpenRouter
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens",
        ContextLength,
        &[],
    ),
    ("Insufficient credits. Add more using https://openrouter.ai/settings/credits", Quota, &[]),
    ("No auth credentials found", Auth, &[]),
    ("x/y:free is temporarily rate-limited upstream. Please retry shortly", RateLimit, &[]),
    ("No endpoints found that support tool use.", InvalidRequest, &[]),
    // xAI
    (
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        ContextLength,
        &[],
    ),
    ("Your team has either used all available credits or reached its monthly spending limit.", Quota, &[]),
    // llama.cpp, vLLM, ollama, LM Studio
    (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        ContextLength,
        &[],
    ),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", ContextLength, &[]),
    ("model 'x' not found, try pulling it first", InvalidRequest, &[]),
    ("server busy, please try again. maximum pending requests exceeded", Overloaded, &[]),
    (
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
        ContextLength,
        &[],
    ),
    ("Context size has been exceeded.", ContextLength, &[]),
    ("the input length exceeds the context length", ContextLength, &[]),
    // text-generation-inference, SiliconFlow
    (
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`",
        ContextLength,
        &[],
    ),
    ("length of prompt_tokens (163280) must be less than max_seq_len (32768).", ContextLength, &[]),
    // The network
    ("error sending request for url (https://chatgpt.com/backend-api/codex/responses)", Network, &[]),
    ("connect ECONNREFUSED 127.0.0.1:1234", Network, &[]),
    ("getaddrinfo ENOTFOUND api.example.com", Network, &[]),
    ("stream disconnected before completion: stream closed before response.completed", Network, &[]),
    ("Request timed out.", Timeout, &[]),
];

/// The kinds that a text names, in the order in which they count.
fn named(message: &str) -> Vec<ErrorKind> {
    let message = message.to_ascii_lowercase();
    let mut kinds = Vec::new();
    for (kind, phrases) in PHRASES {
        if !kinds.contains(kind) && phrases.split("; ").any(|phrase| holds(&message, phrase)) {
            kinds.push(*kind);
        }
    }
    kinds
}

#[test]
fn each_message_has_its_kind_and_no_phrase_of_another_matches() {
    let wrong: Vec<_> = MESSAGES
        .iter()
        .filter_map(|(message, kind, also)| {
            let mut others = named(message);
            others.retain(|other| other != kind && !also.contains(other));
            let is_right = of_words(message) == Some(*kind) && others.is_empty();
            (!is_right).then_some((message, kind, named(message)))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn words_of_everyday_name_no_failure() {
    for words in [
        "I fixed the failing test.",
        "The function takes a context and returns its length.",
        "Added a limit to the rate of the animation.",
        "The quota of pages was read from the file.",
        "It loads the key of the map.",
        "balance of the load",
        "the server is written in Rust",
    ] {
        assert_eq!(of_words(words), None, "{words}");
    }
}
