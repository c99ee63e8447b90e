// Models, and providers that the program brings itself.
import type { AutoTier, ModelBillingTokenPrices } from './generated'

/** How much a model thinks before it answers. */
export type ReasoningEffort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'
/** Size of the model's context. */
export type ContextTier = 'default' | 'long_context'

/** Abilities and limits of a model. */
export interface ModelCapabilities {
  /** Abilities of the model. */
  supports: {
    /** Whether the model reads images. */
    vision: boolean
    /** Whether `reasoningEffort` has an effect. */
    reasoningEffort: boolean
  }
  /** Limits of the model. */
  limits: {
    max_prompt_tokens?: number
    max_output_tokens?: number
    max_context_window_tokens: number
    vision?: { supported_media_types: string[]; max_prompt_images: number; max_prompt_image_size: number }
  }
}

type DeepPartial<T> = T extends readonly (infer Item)[]
  ? DeepPartial<Item>[]
  : T extends object
    ? { [Key in keyof T]?: DeepPartial<T[Key]> }
    : T

/** Changes to the abilities and limits of a model; every field is optional. */
export type ModelCapabilitiesOverride = DeepPartial<ModelCapabilities>

/** Policy of the account for a model. */
export interface ModelPolicy {
  /** Whether the model may be used. */
  state: 'enabled' | 'disabled' | 'unconfigured'
  /** Terms of use. */
  terms: string
}
/** Price of a model. */
export interface ModelBilling {
  /** Factor on the base price. */
  multiplier?: number
  /** Prices of tokens. */
  tokenPrices?: ModelBillingTokenPrices
}
/** A model that the account can use. */
export interface ModelInfo {
  /** Id of the model. */
  id: string
  /** Name of the model, for people. */
  name: string
  /** Abilities and limits. */
  capabilities: ModelCapabilities
  /** Policy of the account for this model. */
  policy?: ModelPolicy
  /** Price of the model. */
  billing?: ModelBilling
  /** Reasoning efforts that the model supports. */
  supportedReasoningEfforts?: ReasoningEffort[]
  /** Reasoning effort that the model uses by default. */
  defaultReasoningEffort?: ReasoningEffort
}

/** The request of a token. */
export interface ProviderTokenArgs {
  /** Name of the provider; `"default"` for the `provider` of a session. */
  readonly providerName: string
  /** Id of the session. */
  readonly sessionId: string
}
/** Gives a fresh token whenever the runtime needs one. */
export type BearerTokenProvider = (args: ProviderTokenArgs) => Promise<string>

interface ProviderBase {
  /** API that the provider speaks. */
  type?: 'openai' | 'azure' | 'anthropic'
  /** Variant of the OpenAI API. */
  wireApi?: 'completions' | 'responses'
  /** Address of the API. */
  baseUrl: string
  /** API key. */
  apiKey?: string
  /** Bearer token, instead of an API key. */
  bearerToken?: string
  /** Gives a bearer token whenever the runtime needs one. */
  bearerTokenProvider?: BearerTokenProvider
  /** Settings for Azure. */
  azure?: {
    /** Version of the Azure API. */
    apiVersion?: string
  }
  /** HTTP headers of each request. */
  headers?: Record<string, string>
}
/** A model provider of your own for a whole session, instead of the Copilot API. */
export interface ProviderConfig extends ProviderBase {
  /**
   * Transport of the OpenAI Responses API.
   *
   * @default "http"
   */
  transport?: 'http' | 'websockets'
  /**
   * Well-known model by which the runtime chooses prompts, tools and limits.
   *
   * @default the session's `model`
   */
  modelId?: string
  /**
   * Name of the model that is sent to the provider.
   *
   * @default `modelId`, else the session's `model`
   */
  wireModel?: string
  /**
   * Largest prompt in tokens. The runtime compacts the conversation before a request would exceed it.
   *
   * @default the limit of the model
   */
  maxPromptTokens?: number
  /**
   * Largest answer in tokens. A longer answer is cut.
   *
   * @default the limit of the model
   */
  maxOutputTokens?: number
}
/**
 * A model provider that `models` refer to by name. Models of the Copilot API stay available beside it.
 */
export interface NamedProviderConfig extends ProviderBase {
  /** Name of the provider, without `/`. */
  name: string
}
/** A model of a named provider. In a session its id is `provider/id`. */
export interface ProviderModelConfig {
  /** Id of the model, unique within its provider. */
  id: string
  /** Name of the provider. */
  provider: string
  /**
   * Name of the model that is sent to the provider.
   *
   * @default `id`
   */
  wireModel?: string
  /**
   * Well-known model by which the runtime chooses prompts, tools and limits.
   *
   * @default `id`
   */
  modelId?: string
  /**
   * Name of the model, for people.
   *
   * @default `provider/id`
   */
  name?: string
  /** Largest prompt in tokens. */
  maxPromptTokens?: number
  /** Size of the context in tokens. */
  maxContextWindowTokens?: number
  /** Largest answer in tokens. */
  maxOutputTokens?: number
  /** Changes to the abilities and limits of the model. */
  capabilities?: ModelCapabilitiesOverride
}
/** Settings of the Copilot API. */
export interface CapiSessionOptions {
  /** Preference when the model is `"auto"`. */
  autoTier?: AutoTier
  /**
   * Whether the Responses API may use a WebSocket. Set it to false behind a proxy that breaks
   * WebSockets.
   *
   * @default true where the model supports it
   */
  enableWebSocketResponses?: boolean
}

/** @internal Fills in what older runtimes leave out. */
export function completeModel(model: ModelInfo): ModelInfo {
  const capabilities = (model.capabilities ?? {}) as Partial<ModelCapabilities>
  const limits = { max_context_window_tokens: 0, ...capabilities.limits }
  const supports = (capabilities.supports ?? {}) as ModelCapabilities['supports']
  return { ...model, capabilities: { ...capabilities, supports, limits } }
}

/** The session's own provider has this name when a token is asked for. */
const OWN_PROVIDER = 'default'

/** @internal Providers for the wire, and the functions that stay here, by the provider's name. */
export function splitProviders(
  provider: ProviderConfig | undefined,
  providers: NamedProviderConfig[] | undefined,
) {
  const tokens = new Map<string, BearerTokenProvider>()
  const split = <T extends ProviderBase>(name: string, config: T): unknown => {
    const { bearerTokenProvider, ...rest } = config
    if (!bearerTokenProvider) return config
    tokens.set(name, bearerTokenProvider)
    return { ...rest, hasBearerTokenProvider: true }
  }
  return {
    provider: provider && split(OWN_PROVIDER, provider),
    providers: providers?.map((one) => split(one.name, one)),
    tokens,
  }
}
